#include "memory/foreign.h"

const struct foreign_ops *foreign_ops;
