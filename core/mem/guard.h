/* The guard: survives a peer that shrinks the file behind its memory (V62).
 *
 * A touch beyond the file's end raises SIGBUS in whichever thread touched.
 * The handler finds the table that the address belongs to, maps zeroed
 * private pages over the rest of the mapping, and sets the table's `lost`
 * flag; the thread goes on with zeros, and the control thread stops the port's
 * queues when it sees the flag. Any other SIGBUS keeps its usual effect.
 *
 * The list of tables is changed by the control thread and read by the
 * handler: slots are published with release and read with acquire. */
#pragma once

struct mr_memory;

/* Installs the handler once, and registers / forgets a table. add: ENOMEM
 * when more tables than the guard has slots for are alive. remove: allowed on
 * a table that was never added. */
int mr_guard_add(struct mr_memory *memory);
void mr_guard_remove(struct mr_memory *memory);
