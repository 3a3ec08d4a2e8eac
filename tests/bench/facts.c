/* What the disassembly is judged by, a fact a line, from the headers that the
 * burst functions were compiled with:
 *
 *   features OFFSET BYTES     of the negotiated bits in struct mr_ring
 *   bit NAME VALUE            a bit of a variant's number
 *   variant NUMBER NAME
 *   level NAME -              a CPU level that there is code for */
#include <stdio.h>

#include "burst/variant.h"
#include "ring/ring.h"

int
main(void)
{
    printf("features %zu %zu\n", offsetof(struct mr_ring, features),
           sizeof(((struct mr_ring *)0)->features));
    printf("bit packed %d\n", MR_V_PACKED);
    printf("bit mergeable %d\n", MR_V_MERGEABLE);
    printf("bit in_order %d\n", MR_V_IN_ORDER);
    printf("bit platform %d\n", MR_V_PLATFORM);
#define X(arg, v, name) printf("variant %d %s\n", v, name);
    MR_VARIANTS(X, )
#undef X
#define X(name, text) printf("level " #name " -\n");
    MR_LEVELS(X)
    return 0;
}
