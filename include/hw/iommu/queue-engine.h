/*
 * IOMMU queue engine: when the entries of a command queue are consumed and
 * completed
 *
 * A device-independent consumer of a ring of commands in guest memory: a
 * doorbell, then fetch, execution and completion, each of which takes time.
 * It knows neither timers nor devices: whoever owns it says what time it is
 * and offers a table of operations.  See docs/specs/iommu-queue.rst for the
 * model.
 *
 * All times are picoseconds (int64_t) of virtual time, costs are cycles of the
 * IOMMU's clock (uint32_t).  Callers hold the BQL.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_IOMMU_QUEUE_ENGINE_H
#define HW_IOMMU_QUEUE_ENGINE_H

#define QUEUE_ENGINE_NEVER INT64_MAX

/* Commands that have started, but are not complete, at most */
#define QUEUE_ENGINE_STARTED 64
/*
 * Commands that are planned, but not complete; a power of two, more than
 * QUEUE_ENGINE_STARTED.  The owner's timer is for half of them if nothing else
 * happens, and costs the host as much as several commands do.
 */
#define QUEUE_ENGINE_INFLIGHT 256
/* Doorbells that are told apart; more than that are merged. */
#define QUEUE_ENGINE_DOORBELLS 256
#define QUEUE_ENGINE_MAX_DEPTH 32
#define QUEUE_ENGINE_MAX_CLASSES 24
#define QUEUE_ENGINE_HIST 40

/* One transfer of the fetch unit, in bytes. */
#define QUEUE_ENGINE_LINE 64

/* What a command's class means to the pipeline. */
enum {
    /* Completes after all before it; occupies no place in the pipeline. */
    QUEUE_CMD_WAIT = 1 << 0,
    /* Nothing behind it starts before it is complete. */
    QUEUE_CMD_FENCE = 1 << 1,
    /* The head passes it when it is complete, not when it starts. */
    QUEUE_CMD_HOLD = 1 << 2,
    /* Waits for an endpoint, outside of the pipeline. */
    QUEUE_CMD_REMOTE = 1 << 3,
};

typedef struct QueueCmd {
    uint64_t desc[4];           /* as fetched, host endian */
    uint32_t pos;               /* in the ring, wrap bit included */
    uint32_t error;             /* the device's code, 0: none */
    uint8_t class;              /* index of the device's class names */
    uint8_t flags;
    bool executed;
    bool timeout;               /* the endpoint is not going to answer */
    int32_t cpu;                /* who rang the doorbell, -1: unknown */
    int64_t submit;             /* when it did */
    int64_t start;
    int64_t done;
} QueueCmd;

typedef enum QueueResult {
    QUEUE_OK,
    QUEUE_FAULT,                /* stop at this command: cmd->error is set */
    QUEUE_TIMEOUT,              /* an endpoint did not answer: see below */
} QueueResult;

typedef struct QueueEngineOps {
    /*
     * Read the command at ring position @cmd->pos into @cmd->desc, set its
     * class and flags, its cycles in the pipeline and those it waits for an
     * endpoint after that (QUEUE_CMD_REMOTE).  A command that must not be
     * executed gets cmd->error.
     */
    void (*fetch)(void *dev, QueueCmd *cmd, uint64_t *cycles,
                  uint64_t *remote);
    /*
     * The command is complete: let it take effect.  @removed is how many
     * cache entries it dropped.  After QUEUE_TIMEOUT, commands that had
     * started are finished, waits among them are dropped (aborted() is
     * called), and the engine halts, as after a fault.
     */
    QueueResult (*execute)(void *dev, QueueCmd *cmd, uint32_t *removed);
    void (*aborted)(void *dev, const QueueCmd *cmd);
    /* The engine has halted at @cmd, whose error is set. */
    void (*fault)(void *dev, const QueueCmd *cmd);
    /* The head moved: commands before @pos are consumed. */
    void (*head)(void *dev, uint32_t pos, bool was_full);
    /* Nothing is in flight any more after queue_engine_stop(). */
    void (*stopped)(void *dev);
    /* Call queue_engine_run() at @when; QUEUE_ENGINE_NEVER: no need. */
    void (*arm)(void *dev, int64_t when);
} QueueEngineOps;

typedef struct QueueCosts {
    uint32_t doorbell;          /* tail write to start of the fetch */
    uint32_t fetch;             /* of a 64-byte line */
    uint32_t interval;          /* between the starts of two commands */
    uint32_t depth;             /* commands that are executed at once */
    uint32_t entry;             /* for each cache entry that is dropped */
    uint32_t remote_depth;      /* commands that wait for endpoints */
} QueueCosts;

typedef struct QueueHist {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint64_t bucket[QUEUE_ENGINE_HIST]; /* [n]: below 2^n, [0]: zero */
} QueueHist;

typedef struct QueueCPUStats {
    uint64_t doorbells;
    uint64_t commands;
    uint64_t waits;
    int64_t wait_ps;            /* doorbell to completion of these */
    uint64_t polls;             /* reads of head and status registers */
} QueueCPUStats;

typedef struct QueueStats {
    int64_t since;              /* of all that follows */
    uint64_t commands[QUEUE_ENGINE_MAX_CLASSES];
    int64_t command_ps[QUEUE_ENGINE_MAX_CLASSES];   /* start to completion */
    uint64_t removed;
    uint64_t lines;             /* fetched */
    uint64_t faults;
    uint64_t timeouts;
    uint64_t aborted;
    QueueHist batch;            /* commands for each doorbell */
    QueueHist wait_ns;          /* doorbell to completion of waits, in ns */
    /* Time-weighted, up to accounted_until */
    int64_t busy_ps;
    int64_t full_ps;
    uint64_t full_times;
    uint64_t occupancy_ns;      /* commands times ns */
    uint32_t occupancy_rest;    /* of that, commands times ps below 1000 */
    uint32_t occupancy_max;
} QueueStats;

typedef struct QueueDoorbell {
    int64_t time;
    int64_t arrival;            /* at the fetch unit */
    uint64_t end;               /* first sequence number it does not cover */
    int32_t cpu;
} QueueDoorbell;

typedef struct QueueEngine {
    const QueueEngineOps *ops;
    void *dev;
    uint32_t id;                /* in traces */
    QueueCosts costs;
    uint64_t period;            /* of the clock, in 2^-32 ns */
    unsigned n_cpus;

    /* The ring, while enabled */
    uint32_t mask;              /* positions are taken modulo mask + 1 */
    uint32_t capacity;          /* commands it holds */
    uint32_t entry_size;        /* bytes */

    bool running;
    bool stopping;
    bool halted;
    bool busy;                  /* inside an operation of the device */

    uint32_t head;              /* first that is not consumed */
    uint32_t next;              /* first that is not fetched */
    uint32_t tail;
    uint64_t seq_next;          /* the sequence number of next */
    uint64_t seq_tail;

    /* In flight: n_cmds from seq_done on, slot = number % INFLIGHT */
    QueueCmd cmds[QUEUE_ENGINE_INFLIGHT];
    uint64_t seq_done;
    uint64_t seq_head;          /* first that is not consumed */

    QueueDoorbell doorbells[QUEUE_ENGINE_DOORBELLS];
    uint32_t first_doorbell;
    uint32_t n_doorbells;

    /* The pipeline */
    int64_t fetch_at;           /* the next line's, at the earliest */
    int64_t line_at;            /* arrival of the present line */
    uint32_t line_left;         /* commands of it that are to be planned */
    bool line_fresh;            /* none of it is planned yet */
    int64_t start_at;           /* the next command's, at the earliest */
    int64_t last_done;
    int64_t fence_at;
    int64_t slots[QUEUE_ENGINE_MAX_DEPTH];
    uint32_t n_slots;
    int64_t remotes[QUEUE_ENGINE_MAX_DEPTH];
    uint32_t n_remotes;
    int64_t wake;               /* as last told to arm() */
    int64_t deferred;           /* when to look at the doorbells again */
    bool faulty;                /* the last command in flight has an error */

    QueueStats stats;
    QueueCPUStats *cpus;        /* [n_cpus + 1]; the last: unknown */
    int64_t accounted_until;
} QueueEngine;

/* @costs and @period are set by the owner, after this. */
void queue_engine_init(QueueEngine *e, const QueueEngineOps *ops, void *dev,
                       unsigned n_cpus);
void queue_engine_destroy(QueueEngine *e);

/*
 * Start with an empty ring whose head and tail are @pos.  @mask + 1 positions
 * (a power of two), of which @capacity can be in use.
 */
void queue_engine_enable(QueueEngine *e, uint32_t mask, uint32_t capacity,
                         uint32_t entry_size, uint32_t pos, int64_t now);
/*
 * Start no more commands.  True if nothing was in flight; else stopped() is
 * called when that is so.
 */
bool queue_engine_stop(QueueEngine *e, int64_t now);
/* Forget all but the statistics. */
void queue_engine_reset(QueueEngine *e);
/* The tail moved. */
void queue_engine_doorbell(QueueEngine *e, uint32_t tail, int64_t now,
                           int cpu);
/* Go on after a fault or timeout, at the head. */
void queue_engine_restart(QueueEngine *e, int64_t now);
/* Bring everything up to @now. */
void queue_engine_run(QueueEngine *e, int64_t now);
/* Somebody reads the head or a status register. */
void queue_engine_poll(QueueEngine *e, int cpu);
/* Whether commands are in flight or wait to be fetched. */
bool queue_engine_active(const QueueEngine *e);
/* After the state was loaded: whether it makes sense; arms the owner's timer */
bool queue_engine_loaded(QueueEngine *e);

void queue_engine_stats_reset(QueueEngine *e, int64_t now);
/* Extend the time-weighted statistics up to @now. */
void queue_engine_stats_update(QueueEngine *e, int64_t now);

int64_t queue_engine_ps(const QueueEngine *e, uint64_t cycles);

#endif /* HW_IOMMU_QUEUE_ENGINE_H */
