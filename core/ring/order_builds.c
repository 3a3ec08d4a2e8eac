#include "ring/order.h"

#if defined(MR_ORDER_BUILD)
bool mr_order_hardware;
#endif
