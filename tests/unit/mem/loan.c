/* mem/packet_loan: buffers lent to packets come back, from any thread and
 * however the packet was held, and the memory stays as long as they are out. */
#include "unit/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/packet_loan.h"

enum { BYTES = 1 << 16, BUFFERS = 8, LEN = 1000 };

static struct mr_pool *lender;
static struct mr_memory *memory;
static struct mr_loan *loan;
static uint8_t *bytes;

static int
open_loan(void **state)
{
    struct mr_region_spec spec = {0, BYTES, 0, 0};
    int fd = memfd_create("guest", MFD_CLOEXEC);
    uint64_t room;

    (void)state;
    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(mr_memory_create(&spec, &fd, 1, &memory), 0);
    close(fd);
    bytes = mr_memory_guest(memory, 0, &room);
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i / 7);
    assert_int_equal(mr_loan_pool_create(64, &lender), 0);
    assert_int_equal(mr_loan_open(memory, lender, BUFFERS, &loan), 0);
    return 0;
}

static int
close_loan(void **state)
{
    (void)state;
    assert_true(mr_loan_close(loan));
    mr_memory_destroy(memory);
    assert_int_equal(mr_pool_free(lender), 0);
    return 0;
}

/* A packet with a head of its own and a lent tail. */
static struct mr_pkt *
lend(uint16_t id)
{
    struct mr_pkt *pkt, *tail;

    assert_int_equal(mr_pkts_alloc(pool, &pkt, 1), 1);
    tail = mr_loan_lend(loan, bytes + id * LEN, LEN, id);
    assert_non_null(tail);
    mr_pkt_set_len(pkt, 10);
    pkt->pkt_len = 10 + LEN;
    pkt->nb_segs = 2;
    pkt->next = tail;
    return pkt;
}

static void
the_bytes_are_where_they_were(void **state)
{
    struct mr_pkt *pkt = lend(3);
    uint8_t got[LEN];

    (void)state;
    assert_ptr_equal(mr_pkt_data(pkt->next), bytes + 3 * LEN);
    assert_int_equal(mr_pkt_read(pkt, 10, got, LEN), LEN);
    assert_memory_equal(got, bytes + 3 * LEN, LEN);
    assert_null(mr_pkt_append(pkt, 1)); /* the next byte is not ours */
    assert_int_equal(loan->out, 1);
    assert_null(mr_loan_back(loan));
    mr_pkt_free(pkt);
    assert_true(mr_loan_pushed(loan));
    assert_int_equal(mr_loan_back(loan)->id, 3);
    assert_null(mr_loan_back(loan));
    assert_int_equal(loan->out, 0);
}

static void
no_more_than_n_are_out(void **state)
{
    struct mr_pkt *pkts[BUFFERS];

    (void)state;
    for (int turn = 0; turn < 10; turn++) {
        uint32_t seen = 0;

        for (uint16_t i = 0; i < BUFFERS; i++) {
            assert_true(mr_loan_room(loan));
            pkts[i] = lend(i);
        }
        assert_false(mr_loan_room(loan));
        assert_false(mr_loan_close(loan));
        mr_pkts_free(pkts, BUFFERS);
        for (struct mr_lent *l; (l = mr_loan_back(loan)); l->owed = false) {
            assert_true(l->owed);
            seen |= 1u << l->id;
        }
        assert_int_equal(seen, (1 << BUFFERS) - 1);
    }
}

static void
without_a_packet_nothing_is_lent(void **state)
{
    struct mr_pkt *all[64];

    (void)state;
    assert_int_equal(rte_mempool_get_bulk(lender->mp, (void **)all, 64), 0);
    assert_null(mr_loan_lend(loan, bytes, LEN, 0));
    assert_int_equal(loan->out, 0);
    assert_true(mr_loan_room(loan));
    rte_mempool_put_bulk(lender->mp, (void **)all, 64);
}

/* Segments part from their packets: a tail alone is no packet of its pool. */
static void
a_tail_alone_comes_back(void **state)
{
    struct mr_pkt *tail[2] = {mr_loan_lend(loan, bytes, LEN, 1),
                              mr_loan_lend(loan, bytes, LEN, 2)};

    (void)state;
    mr_pkts_free(tail, 2);
    assert_non_null(mr_loan_back(loan));
    assert_non_null(mr_loan_back(loan));
    assert_int_equal(mr_pool_available(lender), mr_pool_size(lender));
}

static void
a_packet_held_twice_comes_back_once(void **state)
{
    struct mr_pkt *pkt = lend(1);

    (void)state;
    rte_pktmbuf_refcnt_update((struct rte_mbuf *)pkt, 1);
    mr_pkt_free(pkt);
    assert_null(mr_loan_back(loan));
    mr_pkt_free(pkt);
    assert_non_null(mr_loan_back(loan));
}

/* The table's creator lets go while packets are out. */
static void
memory_stays_until_the_last_is_back(void **state)
{
    struct mr_pkt *a = lend(1), *b = lend(2);
    uint8_t got[LEN];

    (void)state;
    mr_memory_destroy(memory);
    mr_pkt_free(a);
    assert_false(mr_loan_close(loan));
    assert_int_equal(mr_pkt_read(b, 10, got, LEN), LEN);
    assert_int_equal(got[5], (uint8_t)((2 * LEN + 5) / 7));
    mr_pkt_free(b);
    assert_int_equal(msync((void *)((uintptr_t)bytes & -4096ul), 4096,
                           MS_ASYNC), 0);
    assert_true(mr_loan_close(loan));
    assert_int_equal(msync((void *)((uintptr_t)bytes & -4096ul), 4096,
                           MS_ASYNC), -1);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(mr_pool_free(lender), 0);
    open_loan(state);
}

enum { THREADS = 3, EACH = 20000 };

/* Packets on their way to the threads that free them. */
static struct mr_pkt *mail[THREADS];

static void *
freer(void *arg)
{
    struct mr_pkt **box = arg;

    for (int i = 0; i < EACH;) {
        struct mr_pkt *pkt = __atomic_exchange_n(box, NULL, __ATOMIC_ACQUIRE);

        if (pkt)
            i++;
        else
            sched_yield();
        mr_pkt_free(pkt);
    }
    return NULL;
}

static void
any_thread_may_free(void **state)
{
    pthread_t thread[THREADS];
    uint32_t lent[THREADS] = {0}, back = 0;

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, freer, &mail[i]), 0);
    while (back < THREADS * EACH) {
        struct mr_lent *l;

        for (int i = 0; i < THREADS; i++)
            if (lent[i] < EACH && mr_loan_room(loan) && !mr_load(&mail[i])) {
                struct mr_pkt *pkt = mr_loan_lend(loan, bytes, LEN, 0);

                assert_non_null(pkt);
                lent[i]++;
                mr_store_release(&mail[i], pkt);
            }
        while ((l = mr_loan_back(loan))) {
            assert_true(l->owed);
            l->owed = false;
            back++;
        }
        sched_yield();
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(back, THREADS * EACH);
    assert_int_equal(mr_pool_available(lender), mr_pool_size(lender));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_loan, close_loan)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_bytes_are_where_they_were),
        TEST(no_more_than_n_are_out),
        TEST(without_a_packet_nothing_is_lent),
        TEST(a_tail_alone_comes_back),
        TEST(a_packet_held_twice_comes_back_once),
        TEST(memory_stays_until_the_last_is_back),
        TEST(any_thread_may_free),
    };

    return cmocka_run_group_tests(tests, pool_setup, pool_teardown);
}
