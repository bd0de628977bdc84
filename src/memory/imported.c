#include "memory/imported.h"

const struct imported_ops *imported_ops;
