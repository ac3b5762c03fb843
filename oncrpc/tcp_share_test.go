package oncrpc

import (
	"context"
	"encoding/binary"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dialFrom is dial from the given host.
func (l *pipeListener) dialFrom(host byte) net.Conn {
	client, server := net.Pipe()
	l.conns <- addrConn{server, &net.TCPAddr{IP: net.IPv4(198, 51, 100, host), Port: 1000}}
	return client
}

// quarter is a quarter of a party's part of the memory, in bytes.
const quarter = partyMemoryLimit / 4

// newLendMux is a program with short replies that each hold a quarter of a party's
// part of the memory.
func newLendMux() *Mux {
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
		if c.Proc == 2 { // a large argument
			c.Args.Item(quarter)
			return c.Args.Done()
		}
		r.NewItem(quarter)
		r.Item.B = r.Item.B[:4]
		r.Head = xdr.AppendUint32(r.Head, 4)
		return nil
	}))
	return m
}

// sendLendCall sends a call; the test reads the reply with readRecord.
func sendLendCall(t *testing.T, nc net.Conn, xid uint32) {
	t.Helper()
	_, err := nc.Write(newRecord(newCallMessage(xid, testProg, 2, 1)))
	require.NoError(t, err)
	synctest.Wait()
}

// readReplyXIDs reads replies in its own goroutine until the connection ends.
func readReplyXIDs(nc net.Conn) <-chan uint32 {
	got := make(chan uint32, maxCalls)
	go func() {
		defer close(got)
		b := make([]byte, markLen+rpcmsg.AcceptedLen+4+4)
		for {
			if _, err := nc.Read(b[:markLen]); err != nil {
				return
			}
			n := binary.BigEndian.Uint32(b) &^ lastFrag
			for have := uint32(0); have < n; {
				m, err := nc.Read(b[have:n])
				if err != nil {
					return
				}
				have += uint32(m)
			}
			got <- binary.BigEndian.Uint32(b)
		}
	}()
	return got
}

// TestRepliesShared checks that one party, with any number of connections, gets
// only its part of the memory for replies, and that the rest is for others.
func TestRepliesShared(t *testing.T) {
	runInBubble(t, &Server{Handler: newLendMux(), Log: discardLogger()}, func(t *testing.T, l *pipeListener) {
		deaf, greedy, again, other := l.dialFrom(1), l.dialFrom(1), l.dialFrom(1), l.dialFrom(2)
		for xid := range uint32(4) {
			sendLendCall(t, deaf, xid)
		}
		sendLendCall(t, again, 5)
		readRecord(t, again) // one connection gets half of the party's part
		for xid := range uint32(2) {
			sendLendCall(t, greedy, xid)
		}
		sendLendCall(t, again, 5)
		replies := readReplyXIDs(again)
		synctest.Wait()
		require.Empty(t, replies, "the party has nothing left")
		sendLendCall(t, other, 6)
		assert.Equal(t, uint32(6), binary.BigEndian.Uint32(readRecord(t, other)))
		time.Sleep(2 * fairshare.PressTime)
		synctest.Wait()
		assert.Empty(t, replies, "it keeps nothing from others, so it may be slow")
		drained := readReplyXIDs(greedy)
		synctest.Wait()
		assert.Len(t, drained, 2)
		assert.Len(t, replies, 1)
		for _, nc := range []net.Conn{deaf, greedy, again, other} {
			nc.Close()
		}
	})
}

// TestRepliesPressed checks that peers that hold all memory for replies and
// read none soon lose their connections if others wait, even if they send
// further calls, and keep them otherwise.
func TestRepliesPressed(t *testing.T) {
	t.Run("silent", func(t *testing.T) { repliesPressed(t, false) })
	t.Run("calling", func(t *testing.T) { repliesPressed(t, true) })
}

func repliesPressed(t *testing.T, calling bool) {
	runInBubble(t, &Server{Handler: newLendMux(), Log: discardLogger()}, func(t *testing.T, l *pipeListener) {
		deaf := []net.Conn{l.dialFrom(1), l.dialFrom(1), l.dialFrom(2), l.dialFrom(2)}
		for _, nc := range deaf {
			for xid := range uint32(2) {
				sendLendCall(t, nc, xid)
			}
		}
		idle, waits := l.dialFrom(2), l.dialFrom(3)
		time.Sleep(3 * fairshare.PressTime)
		sendLendCall(t, waits, 9)
		replies := readReplyXIDs(waits)
		time.Sleep(fairshare.PressTime - time.Millisecond)
		synctest.Wait()
		require.Empty(t, replies)
		if calling {
			for _, nc := range deaf {
				large := xdr.AppendOpaque(nil, make([]byte, 2*smallRecord))
				_, err := nc.Write(newRecord(newCallMessage(3, testProg, 2, 2, large...)))
				require.NoError(t, err)
			}
			synctest.Wait()
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.Len(t, replies, 1)
		for _, nc := range deaf {
			_, err := nc.Write([]byte{0})
			assert.Error(t, err, "it is cut")
			nc.Close()
		}
		sendLendCall(t, idle, 10)
		readRecord(t, idle)
		idle.Close()
		waits.Close()
	})
}

// TestRepliesPressedSpares checks that a peer that reads its replies slowly
// keeps its connection.
func TestRepliesPressedSpares(t *testing.T) {
	runInBubble(t, &Server{Handler: newLendMux(), Log: discardLogger()}, func(t *testing.T, l *pipeListener) {
		const pace = fairshare.PressTime * 9 / 10
		slow := []net.Conn{l.dialFrom(1), l.dialFrom(1), l.dialFrom(2), l.dialFrom(2)}
		for _, nc := range slow {
			sendLendCall(t, nc, 0) // the first, so written alone
			sendLendCall(t, nc, 1)
		}
		waits := l.dialFrom(3)
		sendLendCall(t, waits, 9)
		replies := readReplyXIDs(waits)
		time.Sleep(pace)
		for _, nc := range slow {
			readRecord(t, nc)
		}
		time.Sleep(pace)
		for _, nc := range slow {
			readRecord(t, nc)
		}
		synctest.Wait()
		assert.Len(t, replies, 1)
		for _, nc := range slow {
			sendLendCall(t, nc, 10)
			readRecord(t, nc)
			nc.Close()
		}
		waits.Close()
	})
}

// TestRequestsPressed checks the same for large calls, with peers that send
// only their first bytes.
func TestRequestsPressed(t *testing.T) {
	s := &Server{Handler: newLendMux(), MaxRecord: partyMemoryLimit, Log: discardLogger()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		large := newCallMessage(1, testProg, 2, 2, xdr.AppendOpaque(nil, make([]byte, 8000))...)
		mark := binary.BigEndian.AppendUint32(nil, lastFrag|partyMemoryLimit)
		for host := range byte(2) {
			_, err := l.dialFrom(host).Write(append(mark, large...))
			require.NoError(t, err)
		}
		synctest.Wait()
		require.EqualValues(t, memoryLimit, s.requestMemory.InUse())
		waits := l.dialFrom(3)
		go waits.Write(newRecord(large))
		replies := readReplyXIDs(waits)
		time.Sleep(fairshare.PressTime - time.Millisecond)
		synctest.Wait()
		require.Empty(t, replies)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.Len(t, replies, 1)
		waits.Close()
	})
}

// TestMaxConnsShared checks that at the bound of connections only an idle
// connection makes room: a connection of the party with most connections, or
// otherwise of the newcomer's own party.
func TestMaxConnsShared(t *testing.T) {
	s := &Server{MaxConns: 4, Log: discardLogger()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		g := newGate() // made inside the bubble
		s.Handler = g.newMux()
		busy := l.dialFrom(1)
		sendLendCall(t, busy, 1)
		<-g.entered
		ends := make(chan struct{}, 10)
		dial := func(host byte) net.Conn {
			nc := l.dialFrom(host)
			time.Sleep(time.Millisecond)
			return nc
		}
		watch := func(nc net.Conn) {
			go func() {
				_, _ = nc.Read(make([]byte, 1))
				ends <- struct{}{}
			}()
		}
		for range 3 {
			watch(dial(1))
		}
		others := []net.Conn{dial(2), dial(2)}
		synctest.Wait()
		assert.Len(t, ends, 2, "of the party that has most")
		others = append(others, dial(2))
		_, err := others[0].Write([]byte{0})
		assert.Error(t, err, "1 would have fewer than 2, whose own longest idle one goes")
		others = append(others, dial(3))
		synctest.Wait()
		assert.LessOrEqual(t, len(s.conns), s.MaxConns)
		close(g.open)
		readRecord(t, busy)
		for _, nc := range append(others, busy) {
			nc.Close()
		}
	})
}
