/*
 * Cache lines that many vCPUs use: code for exclusive accesses
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef ACCEL_TCG_COHERENCE_GEN_H
#define ACCEL_TCG_COHERENCE_GEN_H

#include "system/coherence.h"

#define HELPER_H "accel/tcg/coherence-helper.h"
#include "exec/helper-gen.h.inc"
#undef HELPER_H

/* After a load exclusive at @addr. */
static inline void coherence_gen_ldxr(TCGv_i64 addr)
{
    if (tcg_ctx->gen_tb->cflags & CF_VTIME_ATOMIC) {
        gen_helper_coherence_ldxr(tcg_env, addr);
    }
}

/* Before a store exclusive at @addr, which fails if the line was lost. */
static inline void coherence_gen_stxr(TCGv_i64 addr, TCGLabel *fail)
{
    if (tcg_ctx->gen_tb->cflags & CF_VTIME_ATOMIC) {
        TCGv_i32 kept = tcg_temp_new_i32();

        gen_helper_coherence_stxr(kept, tcg_env, addr);
        tcg_gen_brcondi_i32(TCG_COND_EQ, kept, 0, fail);
    }
}

#endif
