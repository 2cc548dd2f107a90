/*
 * vtime: what needs the target's TLB
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/exec-all.h"
#include "exec/helper-proto-common.h"
#include "vtime-internal.h"

bool vtime_vaddr_to_ram(CPUState *cpu, vaddr addr, ram_addr_t *ram)
{
    CPUArchState *env = cpu_env(cpu);
    CPUTLBEntryFull *full;
    void *host;
    int flags;

    flags = probe_access_full_mmu(env, addr, 0, MMU_DATA_LOAD,
                                  cpu_mmu_index(cpu, false), &host, &full);
    if ((flags & (TLB_INVALID_MASK | TLB_MMIO)) || !host) {
        return false;
    }
    *ram = addr + full->xlat_section;
    return true;
}

void HELPER(vtime_trace)(CPUArchState *env, uint64_t addr, uint32_t is_store)
{
    vtime_trace_access(env_cpu(env), addr, is_store);
}
