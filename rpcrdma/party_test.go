package rpcrdma

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMaxConnsShared checks that, with all connections taken, the party with
// most makes room for others, by its idle connections (R5042-6.4.1-1).
func TestMaxConnsShared(t *testing.T) {
	g := new(gate)
	withServer(t, &Server{Handler: g, MaxConns: 4}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		ended := func(all ...*requester) (n int) {
			synctest.Wait()
			for _, q := range all {
				n += len(q.closeErrors())
			}
			return n
		}
		busy := r.dialFrom(1)
		busy.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		many := []*requester{busy, r.dialFrom(1), r.dialFrom(1), r.dialFrom(1)}
		others := []*requester{r.dialFrom(2)}
		assert.Equal(t, 1, ended(many...))
		others = append(others, r.dialFrom(2))
		assert.Equal(t, 2, ended(many...))
		r.tap.from = nil
		_, err := r.listen.Dial(t.Context(), rdma.ConnConfig{Handler: busy})
		require.NoError(t, err, "a party without a connection replaces one of a party with two")
		assert.Equal(t, 3, ended(append(many, others...)...))
		assert.Empty(t, busy.closeErrors(), "except one with a call in flight")
		close(g.open)
		busy.onlyAnswer()
	})
}

// TestMaxConnsFair checks that a newcomer is rejected if the largest party has
// at most one connection more, or if all have calls in flight.
func TestMaxConnsFair(t *testing.T) {
	g := new(gate)
	withServer(t, &Server{Handler: g, MaxConns: 3}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		refused := func() {
			t.Helper()
			_, err := r.listen.Dial(t.Context(), rdma.ConnConfig{Handler: &requester{t: t}})
			require.Error(t, err)
		}
		a, b, two := r.dialFrom(1), r.dialFrom(1), r.dialFrom(2)
		two.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		require.Equal(t, 1, g.servingCount())
		refused() // party 2 would have more than 1
		r.dialFrom(3)
		assert.Len(t, append(a.closeErrors(), b.closeErrors()...), 1)
		if len(a.closeErrors()) > 0 {
			a = b
		}
		a.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		require.Equal(t, 2, g.servingCount())
		r.dialFrom(3) // instead of its other
		r.tap.from = &net.TCPAddr{IP: net.IPv4(198, 51, 100, 4)}
		refused() // party 4 would have as many as the others
		close(g.open)
		a.onlyAnswer()
		two.onlyAnswer()
	})
	g = new(gate)
	withServer(t, &Server{Handler: g, MaxConns: 2}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		for range 2 {
			r.dialFrom(1).sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		}
		require.Equal(t, 2, g.servingCount())
		r.tap.from = nil
		_, err := r.listen.Dial(t.Context(), rdma.ConnConfig{Handler: &requester{t: t}})
		require.Error(t, err)
		close(g.open)
	})
}

// TestMemoryShared checks that a party gets no more than its memory share, and
// the others the rest (R5042-3-1, R5042-6.4.1-1).
func TestMemoryShared(t *testing.T) {
	g := new(gate)
	s := newTightServer(g)
	s.MaxMemory *= 2
	withServer(t, s, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		a, again, b := r.dialFrom(1), r.dialFrom(1), r.dialFrom(2)
		for i := range uint32(10) {
			a.writeLarge(i)
			again.writeLarge(i)
		}
		assert.Equal(t, 4, g.servingCount(), "as many as the share holds")
		for i := range uint32(10) {
			b.writeLarge(i)
		}
		assert.Equal(t, 8, g.servingCount())
		close(g.open)
		assert.Len(t, a.newAnswers(), 10)
		assert.Len(t, again.newAnswers(), 10)
		assert.Len(t, b.newAnswers(), 10)
	})
}

// TestMemoryPressed checks that peers that hold all memory without progress
// lose it soon if other calls wait.
func TestMemoryPressed(t *testing.T) {
	s := newTightServer(new(gate))
	s.Handler, s.MaxMemory = null, 2*s.MaxMemory
	withServer(t, s, func(t *testing.T, r *testServer) {
		silent := []*requester{r.dialFrom(1), r.dialFrom(2)}
		for _, q := range silent {
			q.Delay(time.Hour)
			for i := range uint32(4) {
				q.writeLarge(i)
			}
		}
		waits := r.dialFrom(3)
		time.Sleep(time.Hour) // the calls arrive
		synctest.Wait()
		waits.writeLarge(testXID)
		require.Empty(t, waits.newAnswers())
		time.Sleep(fairshare.PressTime - time.Millisecond)
		require.Empty(t, waits.newAnswers())
		time.Sleep(time.Millisecond)
		assert.Len(t, waits.newAnswers(), 1)
		for _, q := range silent {
			require.Len(t, q.closeErrors(), 1)
			assert.ErrorIs(t, q.closeErrors()[0], errStalled)
		}
	})
}

// TestMemoryPressedSpares checks that peers that make progress keep their
// connection, however long others wait.
func TestMemoryPressedSpares(t *testing.T) {
	s := newTightServer(new(gate))
	s.Handler = null
	withServer(t, s, func(t *testing.T, r *testServer) {
		const pace = fairshare.PressTime * 9 / 10
		slow, waits, idle := r.dialFrom(1), r.dialFrom(2), r.dialFrom(3)
		for i := range uint32(4) { // the calls arrive, and are answered, one by one
			slow.Delay(time.Duration(i+1) * pace)
			slow.writeLarge(i)
			synctest.Wait()
		}
		time.Sleep(4 * pace)
		synctest.Wait()
		var l chunks.Lists
		l.Reply, l.HasReply = chunks.Chunk{{Handle: 2, Length: 0xffffffff}}, true
		l.Reads = waits.readSegments(40, make([]byte, large))
		waits.sendCall(newMsg(l), rpcCall(testXID, ""))
		time.Sleep(pace + fairshare.PressTime/2)
		assert.Empty(t, waits.newAnswers())
		time.Sleep(4 * pace)
		assert.Len(t, waits.newAnswers(), 1)
		assert.Len(t, slow.newAnswers(), 4)
		assert.Empty(t, slow.closeErrors())
		assert.Empty(t, idle.closeErrors())
	})
}

// A meterConn reports that bytes move.
type meterConn struct {
	rdma.Conn
	in uint64
}

func (m *meterConn) Traffic() (in, out uint64) { return m.in, 0 }

// TestStands checks that a long message in transit shows that the peer lives,
// and a trickle does not.
func TestStands(t *testing.T) {
	m := new(meterConn)
	c := &conn{rc: m, ready: make(chan struct{})}
	c.markReady()
	assert.False(t, c.isStalled(2), "it is seen for the first time")
	assert.False(t, c.isStalled(3), "no receive is posted")
	c.watch.posted = 1
	assert.False(t, c.isStalled(4), "no receive was posted")
	assert.True(t, c.isStalled(5))
	m.in += fairshare.Bulk
	assert.False(t, c.isStalled(6))
	m.in += fairshare.Bulk - 1
	assert.True(t, c.isStalled(7))
	c.watch.posted, c.watch.done = 2, 1
	assert.False(t, c.isStalled(8))
	assert.True(t, c.isStalled(9))
	assert.False(t, c.isStalled(20), "it was seen long ago")
	assert.False(t, (&conn{ready: make(chan struct{})}).isStalled(21), "it is being set up")
}

// TestInlineBounded checks that messages have a bound over all connections;
// above it the party that has most loses its largest connection (R5042-6.4.1-1,
// R5042-6.4.3.1-1).
func TestInlineBounded(t *testing.T) {
	g := new(gate)
	withServer(t, &Server{Handler: g, MaxInline: minMaxInline, Credits: maxCredits}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		modest, hog, small := r.dialFrom(1), r.dialFrom(2), r.dialFrom(2)
		one := int64(callSize + 512 + 4096)
		calls := int(minMaxInline / one)
		for range calls / 3 {
			modest.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		}
		small.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		for range calls - calls/3 - 1 {
			hog.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		}
		assert.Equal(t, calls, g.servingCount())
		assert.EqualValues(t, int64(calls)*one, r.inlineBytes.Load())
		modest.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		synctest.Wait()
		require.Len(t, hog.closeErrors(), 1)
		assert.ErrorIs(t, hog.closeErrors()[0], errOverLimit)
		assert.Empty(t, modest.closeErrors())
		assert.Empty(t, small.closeErrors())
		assert.EqualValues(t, int64(calls/3+2)*one, r.inlineBytes.Load(), "though its calls have not ended")
		close(g.open)
		assert.Len(t, modest.newAnswers(), calls/3+1)
		assert.Len(t, small.newAnswers(), 1)
	})
}

// TestInlineLists checks that long chunk lists are counted, and not kept.
func TestInlineLists(t *testing.T) {
	g := new(gate)
	withServer(t, &Server{Handler: g, Inline: 64 << 10}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		q := r.dialWith(cmpriv.Message{SendSize: 64 << 10, RecvSize: 64 << 10}.AppendTo(nil))
		before := r.inlineBytes.Load()
		var l chunks.Lists
		segments := make(chunks.Chunk, 1000)
		for i := range segments {
			segments[i] = chunks.Segment{Handle: 1, Length: 1}
		}
		l.AddWrite(segments)
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		synctest.Wait()
		assert.Greater(t, r.inlineBytes.Load()-before, int64(listGrowth*16*len(segments)))
		close(g.open)
		q.onlyAnswer()
	})
	withServer(t, &Server{Handler: null}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		c := r.onlyConn()
		q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		q.onlyAnswer()
		assert.Equal(t, 1, c.freeCount)
		var l chunks.Lists
		l.Reads = q.readSegments(40, make([]byte, 100), 10, 20, 30, 40)
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		q.onlyAnswer()
		assert.Zero(t, c.freeCount)
	})
}
