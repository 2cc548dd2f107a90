#include "trace/trace-hw_iommu.h"
