/* SPDX-License-Identifier: GPL-2.0-or-later */
DEF_HELPER_FLAGS_2(coherence_ldxr, TCG_CALL_NO_WG, void, env, i64)
DEF_HELPER_FLAGS_2(coherence_stxr, TCG_CALL_NO_WG, i32, env, i64)
