/*
 * IOMMU queue engine: when the entries of a command queue are consumed and
 * completed
 *
 * Commands are planned: as soon as a command can be fetched it is read from
 * memory, and the times of its start and completion follow from those of the
 * commands before it.  It takes effect when it is complete.  Planning ahead
 * spares a timer for each command: the owner has to call only when somebody
 * may notice something, the completion of a wait above all.
 *
 * Everything completes in order.  Times of planned commands never change,
 * with one exception (costs.entry, see plan()).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/host-utils.h"
#include "hw/iommu/queue-engine.h"
#include "trace.h"

/*
 * Commands that one call handles at most, so that a guest cannot keep QEMU
 * from doing anything else.  The rest follows at the same virtual time.
 */
#define RUN_BUDGET 4096

int64_t queue_engine_ps(const QueueEngine *e, uint64_t cycles)
{
    /* The period is 32.32 fixed point, in ns; 2^32 cycles do not overflow. */
    uint64_t period_ps = e->period * 1000;

    cycles = MIN(cycles, UINT32_MAX);
    return cycles * (period_ps >> 32) +
           ((cycles * (uint32_t)period_ps) >> 32);
}

static inline QueueCmd *cmd_at(QueueEngine *e, uint64_t seq)
{
    return &e->cmds[seq % QUEUE_ENGINE_INFLIGHT];
}

static inline uint32_t occupancy(const QueueEngine *e)
{
    return (e->tail - e->head) & e->mask;
}

static inline bool full(const QueueEngine *e)
{
    return e->running && occupancy(e) >= e->capacity;
}

bool queue_engine_active(const QueueEngine *e)
{
    return e->running && (e->seq_done != e->seq_next ||
                          (e->seq_next != e->seq_tail && !e->halted));
}

static QueueCPUStats *cpu_stats(QueueEngine *e, int cpu)
{
    return &e->cpus[cpu >= 0 && cpu < e->n_cpus ? cpu : e->n_cpus];
}

static void hist_add(QueueHist *h, uint64_t value)
{
    unsigned n = value ? 64 - clz64(value) : 0;

    h->count++;
    h->sum += value;
    h->max = MAX(h->max, value);
    h->bucket[MIN(n, QUEUE_ENGINE_HIST - 1)]++;
}

/* The state has been what it is now from accounted_until to @t. */
static void account(QueueEngine *e, int64_t t)
{
    int64_t dt = t - e->accounted_until;
    uint32_t n = e->running ? occupancy(e) : 0;
    uint64_t rest;

    if (dt <= 0) {
        return;
    }
    e->accounted_until = t;
    if (queue_engine_active(e)) {
        e->stats.busy_ps += dt;
    }
    if (full(e)) {
        e->stats.full_ps += dt;
    }
    if (dt <= UINT32_MAX) {
        rest = (uint64_t)n * dt + e->stats.occupancy_rest;
    } else {
        /* This times n may be more than 64 bits hold. */
        rest = (uint64_t)n * (dt % 1000) + e->stats.occupancy_rest;
        e->stats.occupancy_ns += n * (uint64_t)(dt / 1000);
    }
    e->stats.occupancy_ns += rest / 1000;
    e->stats.occupancy_rest = rest % 1000;
}

/* ------------------------------------------------------------- planning */

/* How many of the next @max commands the fetch unit knows of at time @t. */
static uint32_t visible(QueueEngine *e, int64_t t, uint32_t max)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < e->n_doorbells && n < max; i++) {
        QueueDoorbell *d = &e->doorbells[(e->first_doorbell + i) %
                                         QUEUE_ENGINE_DOORBELLS];

        if (d->arrival > t) {
            break;
        }
        n = d->end - e->seq_next;
    }
    return MIN(n, max);
}

/*
 * Fetch the next line: once it is known of, the line before it has arrived
 * and that line's first command has started, so that there is room.
 */
static bool plan_line(QueueEngine *e, int64_t now)
{
    uint32_t per_line = QUEUE_ENGINE_LINE / e->entry_size;
    uint32_t left = per_line - (e->next & (per_line - 1));
    int64_t delay = queue_engine_ps(e, e->costs.doorbell);
    int64_t t = MAX(e->fetch_at, e->doorbells[e->first_doorbell].arrival);
    uint32_t n = visible(e, t, left);

    if (n < left && t > now + delay) {
        /* A doorbell may still come in time to fill the line. */
        e->deferred = t - delay;
        return false;
    }
    e->line_left = n;
    e->line_at = t + queue_engine_ps(e, e->costs.fetch);
    e->line_fresh = true;
    e->stats.lines++;
    return true;
}

/* Places are taken in turn; divisions would be a tenth of a command's cost. */
static inline uint32_t place_after(uint32_t n, uint32_t places)
{
    return n + 1 == places ? 0 : n + 1;
}

static inline uint32_t place_before(uint32_t n, uint32_t places)
{
    return (n ? n : places) - 1;
}

/* Plan the next command, if there is one that can be planned at @now. */
static bool plan(QueueEngine *e, int64_t now)
{
    uint64_t in_flight = e->seq_next - e->seq_done;
    uint64_t cycles = 0, remote = 0;
    QueueDoorbell *bell = &e->doorbells[e->first_doorbell];
    QueueCmd *cmd = cmd_at(e, e->seq_next);
    int64_t room_at = cmd_at(e, e->seq_next - QUEUE_ENGINE_STARTED)->done;

    e->deferred = QUEUE_ENGINE_NEVER;
    if (e->stopping || e->halted || e->faulty ||
        e->seq_next == e->seq_tail || in_flight == QUEUE_ENGINE_INFLIGHT) {
        return false;
    }
    if (e->costs.entry && in_flight) {
        /* Its completion depends on what it finds in the caches. */
        return false;
    }
    if (!e->line_left && !plan_line(e, now)) {
        return false;
    }

    *cmd = (QueueCmd) {
        .pos = e->next,
        .submit = bell->time,
        .cpu = bell->cpu,
    };
    e->busy = true;
    e->ops->fetch(e->dev, cmd, &cycles, &remote);
    e->busy = false;

    cmd->start = MAX(MAX(e->line_at, room_at), MAX(e->fence_at, e->start_at));
    if (e->costs.entry) {
        cmd->start = MAX(cmd->start, e->last_done);
    }
    if (cmd->error) {
        cmd->done = MAX(cmd->start, e->last_done);
        e->faulty = true;
    } else if (cmd->flags & QUEUE_CMD_WAIT) {
        cmd->done = MAX(cmd->start, e->last_done) +
                    queue_engine_ps(e, cycles);
    } else {
        int64_t *slot = &e->slots[e->n_slots];
        int64_t last = e->slots[place_before(e->n_slots, e->costs.depth)];
        int64_t *place = &e->remotes[e->n_remotes];

        cmd->start = MAX(cmd->start, *slot);
        if (cmd->flags & QUEUE_CMD_REMOTE) {
            cmd->start = MAX(cmd->start, *place);
        }
        *slot = MAX(last, cmd->start + queue_engine_ps(e, cycles));
        cmd->done = MAX(e->last_done, *slot + queue_engine_ps(e, remote));
        e->n_slots = place_after(e->n_slots, e->costs.depth);
        if (cmd->flags & QUEUE_CMD_REMOTE) {
            *place = cmd->done;
            e->n_remotes = place_after(e->n_remotes, e->costs.remote_depth);
        }
    }
    e->last_done = cmd->done;
    e->start_at = cmd->start + queue_engine_ps(e, e->costs.interval);
    if (cmd->flags & QUEUE_CMD_FENCE) {
        e->fence_at = cmd->done;
    }
    if (e->line_fresh) {
        e->line_fresh = false;
        e->fetch_at = MAX(e->line_at, cmd->start);
    }
    e->line_left--;
    e->next = (e->next + 1) & e->mask;
    e->seq_next++;
    if (e->seq_next == bell->end) {
        e->first_doorbell = (e->first_doorbell + 1) % QUEUE_ENGINE_DOORBELLS;
        e->n_doorbells--;
    }
    return true;
}

/* Forget the commands in flight from @seq on; they are to be fetched again. */
static void rewind_to(QueueEngine *e, uint64_t seq)
{
    QueueCmd *cmd = cmd_at(e, seq);
    uint64_t end = e->seq_next;

    if (seq != end) {
        e->next = cmd->pos;
        e->seq_next = seq;
        e->seq_head = MIN(e->seq_head, seq);
        if (e->seq_head == seq) {
            e->head = cmd->pos;
        }
        /* A tail out of nowhere may be a round ahead: see doorbell(). */
        e->seq_tail = seq + ((e->tail - e->next) & e->mask);
        /* What is not fetched yet now belongs to one doorbell. */
        e->first_doorbell = 0;
        e->n_doorbells = e->seq_tail != seq;
        e->doorbells[0] = (QueueDoorbell) {
            .time = cmd->submit,
            .arrival = cmd->submit,
            .cpu = cmd->cpu,
            .end = e->seq_tail,
        };
    }
    while (seq != end) {
        cmd_at(e, seq++)->done = 0;
    }
    /* Nothing is planned before all that remains is complete. */
    e->fetch_at = e->start_at = e->fence_at = 0;
    memset(e->slots, 0, sizeof(e->slots));
    memset(e->remotes, 0, sizeof(e->remotes));
    e->line_left = 0;
    e->faulty = false;
}

/* ----------------------------------------------------------- completion */

/* Let the head pass all commands that it may have passed by time @t. */
static void advance_head(QueueEngine *e, int64_t t)
{
    uint32_t old = e->head;
    bool was_full = false;

    while (e->seq_head != e->seq_next) {
        QueueCmd *cmd = cmd_at(e, e->seq_head);
        bool hold = cmd->flags & QUEUE_CMD_HOLD;
        int64_t at = hold ? cmd->done : cmd->start;

        if (cmd->error || at > t || (hold && !cmd->executed)) {
            break;
        }
        account(e, at);
        was_full |= full(e);
        e->head = (cmd->pos + 1) & e->mask;
        e->seq_head++;
    }
    if (e->head != old) {
        e->ops->head(e->dev, e->head, was_full);
    }
}

static void halt(QueueEngine *e, QueueCmd *cmd)
{
    QueueCmd copy = *cmd;

    account(e, cmd->done);
    e->stats.faults++;
    trace_iommu_queue_fault(e->id, cmd->done, cmd->pos, cmd->error);
    rewind_to(e, e->seq_done);
    e->last_done = copy.done;
    e->halted = true;
    e->busy = true;
    e->ops->fault(e->dev, &copy);
    e->busy = false;
}

/* An endpoint did not answer: abort the waits that are pending at @t. */
static void abort_waits(QueueEngine *e, int64_t t)
{
    uint32_t removed;

    e->stats.timeouts++;
    advance_head(e, t);
    e->busy = true;
    while (e->seq_done != e->seq_next) {
        QueueCmd *cmd = cmd_at(e, e->seq_done);

        if (cmd->error || cmd->start > t || cmd->flags & QUEUE_CMD_HOLD) {
            break;
        }
        if (cmd->flags & QUEUE_CMD_WAIT) {
            e->stats.aborted++;
            trace_iommu_queue_abort(e->id, t, cmd->cpu, cmd->pos);
            e->ops->aborted(e->dev, cmd);
        } else {
            e->ops->execute(e->dev, cmd, &removed);
            e->stats.commands[cmd->class]++;
        }
        e->seq_done++;
    }
    e->busy = false;
    rewind_to(e, e->seq_done);
    e->last_done = t;
    e->halted = true;
}

/* Complete the oldest command, if it is complete at @now. */
static bool retire(QueueEngine *e, int64_t now)
{
    QueueCmd *cmd = cmd_at(e, e->seq_done);
    QueueResult result = QUEUE_OK;
    QueueCPUStats *cpu;

    if (e->seq_done == e->seq_next || cmd->done > now) {
        return false;
    }
    advance_head(e, cmd->done);
    if (cmd->error) {
        halt(e, cmd);
        return true;
    }
    if (!cmd->executed) {
        uint32_t removed = 0;

        e->busy = true;
        result = e->ops->execute(e->dev, cmd, &removed);
        e->busy = false;
        if (result == QUEUE_FAULT) {
            halt(e, cmd);
            return true;
        }
        cmd->executed = true;
        e->stats.removed += removed;
        if (removed && e->costs.entry) {
            /* Nothing else is in flight: see plan(). */
            cmd->done += queue_engine_ps(e, (uint64_t)removed *
                                            e->costs.entry);
            e->last_done = cmd->done;
            e->slots[place_before(e->n_slots, e->costs.depth)] = cmd->done;
            return true;
        }
    }
    advance_head(e, cmd->done);
    account(e, cmd->done);

    cpu = cpu_stats(e, cmd->cpu);
    cpu->commands++;
    e->stats.commands[cmd->class]++;
    e->stats.command_ps[cmd->class] += cmd->done - cmd->start;
    if (cmd->flags & QUEUE_CMD_WAIT) {
        cpu->waits++;
        cpu->wait_ps += cmd->done - cmd->submit;
        hist_add(&e->stats.wait_ns, (cmd->done - cmd->submit) / 1000);
    }
    trace_iommu_queue_done(e->id, cmd->done, cmd->cpu, cmd->pos, cmd->class,
                           cmd->submit, cmd->start);
    e->seq_done++;
    if (result == QUEUE_TIMEOUT) {
        abort_waits(e, cmd->done);
    }
    return true;
}

/* When somebody might notice that something happens next. */
static int64_t next_wake(QueueEngine *e)
{
    int64_t wake = e->deferred;

    if (e->seq_done == e->seq_next) {
        return wake;
    }
    for (uint64_t seq = e->seq_done; seq != e->seq_next; seq++) {
        QueueCmd *cmd = cmd_at(e, seq);

        /* An endpoint uses its own TLB without asking the IOMMU. */
        if (cmd->error || seq + 1 == e->seq_next ||
            (cmd->flags & (QUEUE_CMD_WAIT | QUEUE_CMD_REMOTE))) {
            wake = MIN(wake, cmd->done);
            break;
        }
    }
    if (e->seq_next - e->seq_done == QUEUE_ENGINE_INFLIGHT) {
        /* Before all are done, so that planning is never late. */
        wake = MIN(wake, cmd_at(e, e->seq_done +
                                QUEUE_ENGINE_INFLIGHT / 2)->done);
    }
    if (full(e) && e->seq_head != e->seq_next) {
        QueueCmd *cmd = cmd_at(e, e->seq_head);

        wake = MIN(wake, cmd->error || cmd->flags & QUEUE_CMD_HOLD
                         ? cmd->done : cmd->start);
    }
    return wake;
}

void queue_engine_run(QueueEngine *e, int64_t now)
{
    unsigned budget = RUN_BUDGET;
    int64_t wake;

    if (e->busy || !e->running) {
        return;
    }
    while (budget && (retire(e, now) || plan(e, now))) {
        budget--;
    }
    advance_head(e, now);
    wake = budget ? next_wake(e) : now;

    if (e->stopping && e->seq_done == e->seq_next) {
        account(e, now);
        e->stopping = e->running = false;
        wake = QUEUE_ENGINE_NEVER;
        e->ops->stopped(e->dev);
    }
    if (wake != e->wake) {
        e->wake = wake;
        e->ops->arm(e->dev, wake);
    }
}

/* ------------------------------------------------------------- the owner */

void queue_engine_init(QueueEngine *e, const QueueEngineOps *ops, void *dev,
                       unsigned n_cpus)
{
    *e = (QueueEngine) {
        .ops = ops,
        .dev = dev,
        .n_cpus = n_cpus,
        .cpus = g_new0(QueueCPUStats, n_cpus + 1),
        .wake = QUEUE_ENGINE_NEVER,
        .deferred = QUEUE_ENGINE_NEVER,
    };
}

void queue_engine_destroy(QueueEngine *e)
{
    g_free(e->cpus);
    e->cpus = NULL;
}

void queue_engine_reset(QueueEngine *e)
{
    e->running = e->stopping = e->halted = e->faulty = false;
    e->head = e->next = e->tail = 0;
    e->seq_next = e->seq_tail = e->seq_done = e->seq_head = 0;
    e->first_doorbell = e->n_doorbells = 0;
    e->fetch_at = e->line_at = e->start_at = e->last_done = e->fence_at = 0;
    e->line_left = 0;
    e->line_fresh = false;
    e->n_slots = e->n_remotes = 0;
    memset(e->cmds, 0, sizeof(e->cmds));
    memset(e->slots, 0, sizeof(e->slots));
    memset(e->remotes, 0, sizeof(e->remotes));
    e->deferred = QUEUE_ENGINE_NEVER;
    if (e->wake != QUEUE_ENGINE_NEVER) {
        e->wake = QUEUE_ENGINE_NEVER;
        e->ops->arm(e->dev, e->wake);
    }
}

void queue_engine_enable(QueueEngine *e, uint32_t mask, uint32_t capacity,
                         uint32_t entry_size, uint32_t pos, int64_t now)
{
    queue_engine_reset(e);
    account(e, now);
    e->mask = mask;
    e->capacity = capacity;
    e->entry_size = entry_size;
    e->head = e->next = e->tail = pos & mask;
    e->running = true;
}

bool queue_engine_stop(QueueEngine *e, int64_t now)
{
    uint64_t seq;

    if (!e->running) {
        return true;
    }
    queue_engine_run(e, now);
    for (seq = e->seq_done; seq != e->seq_next; seq++) {
        if (cmd_at(e, seq)->start > now || cmd_at(e, seq)->error) {
            break;
        }
    }
    rewind_to(e, seq);
    account(e, now);
    if (e->seq_done == e->seq_next) {
        queue_engine_reset(e);
        return true;
    }
    e->stopping = true;
    queue_engine_run(e, now);
    return !e->running;
}

void queue_engine_doorbell(QueueEngine *e, uint32_t tail, int64_t now, int cpu)
{
    uint32_t old, delta, slot;

    if (!e->running) {
        return;
    }
    queue_engine_run(e, now);
    account(e, now);

    tail &= e->mask;
    delta = (tail - e->tail) & e->mask;
    if (!delta) {
        return;
    }
    old = occupancy(e);
    e->tail = tail;
    e->seq_tail += delta;
    if (e->seq_tail - e->seq_next > e->mask) {
        /* More than the ring holds: only the last round counts. */
        e->seq_tail = e->seq_next + ((tail - e->next) & e->mask);
        e->n_doorbells = 0;
        e->line_left = 0;
    }

    hist_add(&e->stats.batch, delta);
    cpu_stats(e, cpu)->doorbells++;
    e->stats.occupancy_max = MAX(e->stats.occupancy_max, occupancy(e));
    if (full(e) && old < e->capacity) {
        e->stats.full_times++;
    }
    trace_iommu_queue_doorbell(e->id, now, cpu, tail, delta, occupancy(e),
                               full(e));

    if (e->seq_tail != e->seq_next) {
        if (e->n_doorbells == QUEUE_ENGINE_DOORBELLS) {
            e->n_doorbells--;
        }
        slot = (e->first_doorbell + e->n_doorbells) % QUEUE_ENGINE_DOORBELLS;
        e->doorbells[slot] = (QueueDoorbell) {
            .time = now,
            .arrival = now + queue_engine_ps(e, e->costs.doorbell),
            .cpu = cpu,
            .end = e->seq_tail,
        };
        e->n_doorbells++;
    }
    queue_engine_run(e, now);
}

void queue_engine_restart(QueueEngine *e, int64_t now)
{
    if (!e->running || !e->halted) {
        return;
    }
    account(e, now);
    e->halted = false;
    e->fetch_at = MAX(e->fetch_at, now +
                      queue_engine_ps(e, e->costs.doorbell));
    queue_engine_run(e, now);
}

void queue_engine_poll(QueueEngine *e, int cpu)
{
    cpu_stats(e, cpu)->polls++;
}

bool queue_engine_loaded(QueueEngine *e)
{
    uint64_t in_flight = e->seq_next - e->seq_done;

    if (e->mask & (e->mask + 1) ||
        (e->entry_size != 16 && e->entry_size != 32) ||
        in_flight > QUEUE_ENGINE_INFLIGHT ||
        e->seq_head - e->seq_done > in_flight ||
        e->seq_tail - e->seq_next > e->mask ||
        e->first_doorbell >= QUEUE_ENGINE_DOORBELLS ||
        e->n_doorbells > QUEUE_ENGINE_DOORBELLS ||
        (e->seq_tail != e->seq_next && !e->n_doorbells) ||
        e->line_left > e->seq_tail - e->seq_next ||
        e->n_slots >= e->costs.depth ||
        e->n_remotes >= e->costs.remote_depth) {
        return false;
    }
    for (int i = 0; i < QUEUE_ENGINE_INFLIGHT; i++) {
        if (e->cmds[i].class >= QUEUE_ENGINE_MAX_CLASSES) {
            return false;
        }
    }
    e->wake = next_wake(e);
    e->ops->arm(e->dev, e->wake);
    return true;
}

void queue_engine_stats_update(QueueEngine *e, int64_t now)
{
    queue_engine_run(e, now);
    account(e, now);
}

void queue_engine_stats_reset(QueueEngine *e, int64_t now)
{
    queue_engine_stats_update(e, now);
    e->stats = (QueueStats) {
        .since = now,
        .occupancy_max = e->running ? occupancy(e) : 0,
    };
    memset(e->cpus, 0, (e->n_cpus + 1) * sizeof(*e->cpus));
    e->accounted_until = now;
}
