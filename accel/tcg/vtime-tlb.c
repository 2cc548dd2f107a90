/*
 * vtime: what needs the target's TLB
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/exec-all.h"
#include "exec/helper-proto-common.h"
#include "exec/cputlb.h"
#include "tcg/insn-start-words.h"
#include "exec/translation-block.h"
#include "coherence-internal.h"
#include "vtime-internal.h"

#define HELPER_H "accel/tcg/coherence-helper.h"
#include "exec/helper-proto.h.inc"
#include "exec/helper-info.c.inc"
#undef HELPER_H

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

/*
 * tlb_flush_page() flushes the whole TLB where the guest maps by large pages,
 * as Linux does its memory; this loses one small page's entry.
 */
void vtime_tlb_forget(CPUState *cpu, vaddr addr)
{
    for (int i = 0; i < NB_MMU_MODES; i++) {
        tlb_forget_entry(cpu, i, addr);
    }
}

bool vtime_unwind(CPUState *cpu, uintptr_t ra, vaddr *pc, int *insns_left)
{
    uint64_t data[TARGET_INSN_START_WORDS];
    TranslationBlock *tb = NULL;
    int left;

    if (in_code_gen_buffer((const void *)(ra - tcg_splitwx_diff))) {
        tb = tcg_tb_lookup(ra);
    }
    left = tb ? cpu_unwind_data_from_tb(tb, ra, data) : -1;
    if (left < 0) {
        return false;
    }
    *insns_left = left;
    *pc = data[0];
    if (cpu->tcg_cflags & CF_PCREL) {
        /* Only the page is up to date in the middle of a block. */
        *pc |= cpu->cc->get_pc(cpu) & TARGET_PAGE_MASK;
    }
    return true;
}

void HELPER(coherence_ldxr)(CPUArchState *env, uint64_t addr)
{
    if (coherence_active()) {
        coherence_load_exclusive(env_cpu(env), addr);
    }
}

uint32_t HELPER(coherence_stxr)(CPUArchState *env, uint64_t addr)
{
    return !coherence_active() ||
           coherence_store_exclusive(env_cpu(env), addr, GETPC());
}
