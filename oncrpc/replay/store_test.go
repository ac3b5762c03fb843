package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkStore compares a cache's counts with its content. No call may be
// running.
func checkStore(t testing.TB, c *Cache) {
	t.Helper()
	s := &c.store
	known := 0
	for _, e := range c.calls {
		for ; e != nil; e = e.alike {
			known++
		}
	}
	require.Equal(t, s.replies, known)
	var size int64
	last := s.ring.savedAt
	n := 0
	for e := s.ring.newer; e != &s.ring; e = e.newer {
		require.Equal(t, c.calls[e.key].key, e.key)
		require.False(t, e.savedAt.Before(last), "in the order of the replies")
		last = e.savedAt
		size += e.memorySize()
		n++
	}
	require.Equal(t, s.replies, n)
	require.Equal(t, s.bytes, size)
	require.Len(t, s.byName, len(s.parties))
	for i, p := range s.parties {
		require.Same(t, p, s.byName[p.name])
		require.Equal(t, i, p.heapIndex)
		require.LessOrEqual(t, p.bytes, s.parties[0].bytes)
		for e := p.oldest; e != nil; e = e.next {
			require.Same(t, p, e.party)
			size -= e.memorySize()
			n--
		}
	}
	require.Zero(t, size, "the parties have all of it")
	require.Zero(t, n)
}

// TestReplayMemory checks that memory is bounded, and that a client with many
// calls displaces only its own replies.
func TestReplayMemory(t *testing.T) {
	const kept = 100
	size := int64(entryCost + cap(append([]byte(nil), makeReply(0, 0)...)))
	m := new(countingProgram)
	c := newReplay(t, m, Config{MaxMemory: kept * size})
	quiet := func(i int) string { return fmt.Sprintf("192.0.2.%d:700", i) }
	for i := range 10 {
		answerOf(c, t.Context(), madeBy(quiet(i), 1, nil))
	}
	for xid := range uint32(1000) { // from many addresses of one network
		answerOf(c, t.Context(), madeBy(fmt.Sprintf("[2001:db8::%x]:700", xid), xid, nil))
		require.LessOrEqual(t, c.Stats().Bytes, c.cfg.MaxMemory)
	}
	checkStore(t, c)
	s := c.Stats()
	assert.Equal(t, kept, s.Replies)
	assert.EqualValues(t, 1010-kept, s.Forgotten)
	for i := range 10 {
		assert.Equal(t, makeReply(1, uint32(i+1)), answerOf(c, t.Context(), madeBy(quiet(i), 1, nil)))
	}
	executed := m.executed
	for xid := uint32(1000 - (kept - 10)); xid < 1000; xid++ { // all except the oldest are kept
		answerOf(c, t.Context(), madeBy(fmt.Sprintf("[2001:db8::%x]:700", xid), xid, nil))
	}
	assert.Equal(t, executed, m.executed)
	answerOf(c, t.Context(), madeBy("[2001:db8::1]:700", 1, nil))
	assert.Equal(t, executed+1, m.executed)
}

// TestReplayParties checks the store's counts under random calls of random
// clients.
func TestReplayParties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := newReplay(t, new(countingProgram), Config{MaxMemory: 50 * 400})
	for i := range 3000 {
		client := fmt.Sprintf("192.0.2.%d:700", min(rng.IntN(40), rng.IntN(40)))
		answerOf(c, t.Context(), madeBy(client, rng.Uint32N(40), nil))
		require.LessOrEqual(t, c.store.bytes, c.cfg.MaxMemory)
		if i%30 == 0 {
			checkStore(t, c)
		}
	}
	assert.NotZero(t, c.Stats().Forgotten)
	assert.NotZero(t, c.Stats().Replayed)
}

// TestReplayCosts checks that a call costs no allocation if its reply is not
// kept, or once the cache is full.
func TestReplayCosts(t *testing.T) {
	c := newReplay(t, new(countingProgram), Config{MaxMemory: 1000 * 300})
	rep := oncrpc.Reply{Head: make([]byte, 0, 512)}
	serve := func(req *oncrpc.Request) {
		rep.Head = rep.Head[:0]
		c.Serve(t.Context(), req, &rep)
		rep.DropItem()
	}
	read := madeBy("192.0.2.1:700", 1, nil)
	read.Msg[23] = procMake - 1
	write := madeBy("192.0.2.1:700", 1, make([]byte, 1000))
	write.Msg, write.Item, write.ItemPos = write.Msg[:44], write.Msg[44:], 44
	xid := uint32(0)
	next := func() {
		xid++
		write.Msg[2], write.Msg[3] = byte(xid>>8), byte(xid)
		serve(write)
	}
	for range 2000 {
		next()
	}
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() { serve(read) }), racetest.PoolLosses(2), "not kept")
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, next), racetest.PoolLosses(4), "kept")
	assert.Zero(t, buf.Default.Out())
}

// serveNothing is a Service whose replies are as long as those of a WRITE.
func serveNothing(_ context.Context, _ *oncrpc.Request, rep *oncrpc.Reply) bool {
	rep.Head = append(rep.Head, make([]byte, 160)...)
	return true
}

func BenchmarkReplay(b *testing.B) {
	for _, proc := range []byte{procMake - 1, procMake} {
		b.Run(fmt.Sprintf("kept=%v", proc == procMake), func(b *testing.B) {
			c := newReplay(b, new(countingProgram), Config{})
			c.next = serviceFunc(serveNothing)
			rep := oncrpc.Reply{Head: make([]byte, 0, 512)}
			req := madeBy("192.0.2.1:700", 1, make([]byte, 1000))
			req.Msg[23] = proc
			b.ReportAllocs()
			for xid := 0; b.Loop(); xid++ {
				req.Msg[0], req.Msg[1], req.Msg[2], req.Msg[3] = byte(xid>>24), byte(xid>>16), byte(xid>>8), byte(xid)
				rep.Head = rep.Head[:0]
				c.Serve(b.Context(), req, &rep)
			}
		})
	}
}
