package oncrpc

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// streamOf returns calls of procedures with the XIDs 0, 1 and so on.
func streamOf(procs ...uint32) (stream []byte) {
	for xid, proc := range procs {
		stream = append(stream, newRecord(newCallMessage(uint32(xid), testProg, 2, proc))...)
	}
	return stream
}

// readReplyXID reads a reply, and returns its XID.
func readReplyXID(t testing.TB, r io.Reader) uint32 { return binary.BigEndian.Uint32(readRecord(t, r)) }

// TestReaderServes checks that one goroutine serves the calls that have arrived
// together, and that their replies leave together after the last whole one, or
// after initialHeldReplies.
func TestReaderServes(t *testing.T) {
	w := &waitingProgram{}
	s := &Server{Handler: w.newMux()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		nc := l.dialPipe()
		for _, calls := range []int64{3, int64(initialHeldReplies)} { // some of the second batch are sent before
			last := newRecord(newCallMessage(9, testProg, 2, 2))
			before := w.served.Load()
			_, err := nc.Write(append(streamOf(slices.Repeat([]uint32{2}, int(calls))...), last[:20]...))
			require.NoError(t, err)
			synctest.Wait()
			assert.Equal(t, before+calls, w.served.Load(), "no reply was read yet")
			for i := range calls {
				assert.EqualValues(t, i, readReplyXID(t, nc))
			}
			_, err = nc.Write(last[20:])
			require.NoError(t, err)
			assert.EqualValues(t, 9, readReplyXID(t, nc))
		}
		before := w.served.Load()
		_, err := nc.Write(streamOf(slices.Repeat([]uint32{2}, initialHeldReplies+5)...))
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, before+int64(initialHeldReplies), w.served.Load(), "the reader writes so many replies")
		for i := range uint32(initialHeldReplies + 5) {
			assert.Equal(t, i, readReplyXID(t, nc))
		}
		assert.Equal(t, uint64(w.served.Load()), onlyConn(s).turn.Calls())
	})
}

// TestFirstRepliesLeave checks that the replies to the first calls of a read arrive
// while the reader serves a later one, before the watchdog has another goroutine read.
func TestFirstRepliesLeave(t *testing.T) {
	s := &Server{}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		open := make(chan struct{})
		m := &Mux{Log: discardLogger()}
		m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, _ *Reply) error {
			if c.XID == uint32(initialHeldReplies) {
				<-open
			}
			return nil
		}))
		s.Handler = m
		nc := l.dialPipe()
		calls := 2*initialHeldReplies + 4
		_, err := nc.Write(streamOf(slices.Repeat([]uint32{2}, calls)...))
		require.NoError(t, err)
		begin := time.Now()
		for i := range uint32(calls) {
			if i == uint32(initialHeldReplies) {
				assert.Zero(t, time.Since(begin))
				close(open)
			}
			assert.Equal(t, i, readReplyXID(t, nc))
		}
	})
}

// TestReaderRelieved checks that a call that waits holds up no other call of its
// connection, and that its own reply is not held back when the calls behind it
// have been served in the meantime.
func TestReaderRelieved(t *testing.T) {
	for name, procs := range map[string][]uint32{"one": {2, 1, 2, 2}, "many": {2, 1, 1, 2, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			w := &waitingProgram{}
			runInBubble(t, &Server{Handler: w.newMux()}, func(t *testing.T, l *pipeListener) {
				w.open = make(chan struct{})
				nc := l.dialPipe()
				_, err := nc.Write(streamOf(procs...))
				require.NoError(t, err)
				begin := time.Now()
				var waiting []uint32
				for i, proc := range procs {
					if proc == 1 {
						waiting = append(waiting, uint32(i))
					} else {
						assert.EqualValues(t, i, readReplyXID(t, nc))
					}
				}
				assert.Less(t, time.Since(begin), time.Second)
				synctest.Wait()
				assert.EqualValues(t, len(waiting), w.running.Load())
				close(w.open)
				for i := range waiting {
					waiting[i] -= readReplyXID(t, nc) // in any order
				}
				assert.Zero(t, sumOf(waiting))
			})
		})
	}
}

func sumOf(all []uint32) (n uint32) {
	for _, v := range all {
		n += v
	}
	return n
}

// TestReaderRelievedFlushes checks that the goroutine that reads on first writes the
// replies that were held back.
func TestReaderRelievedFlushes(t *testing.T) {
	s := &Server{}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		var waiting atomic.Int64
		open := make(chan struct{})
		m := &Mux{Log: discardLogger()}
		m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, _ *Reply) error {
			if c.Proc > 1 {
				waiting.Add(1)
				<-open
			}
			return nil
		}))
		s.Handler = m
		nc := l.dialPipe()
		_, err := nc.Write(streamOf(1, 2, 3, 4))
		require.NoError(t, err)
		_, err = nc.Read(make([]byte, 1))
		require.NoError(t, err)
		assert.EqualValues(t, 1, waiting.Load())
		close(open)
		go io.Copy(io.Discard, nc)
		synctest.Wait()
		nc.Close()
	})
}

// TestReaderRelievedOfWriting checks that calls are read while the reader writes what was
// held back, for a client that reads only after it has written.
func TestReaderRelievedOfWriting(t *testing.T) {
	for name, stream := range map[string][]byte{
		"behind a call that waits":   streamOf(2, 2, 1),
		"behind a call of no answer": streamOf(2, 2, 3),
		"before a call of some KiB":  append(streamOf(2, 2), newRecord(append(newCallMessage(2, testProg, 2, 2), make([]byte, smallRecord)...))...),
	} {
		t.Run(name, func(t *testing.T) {
			m := &Mux{Log: discardLogger()}
			m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, _ *Reply) error {
				switch c.Proc {
				case 1:
					time.Sleep(time.Minute)
				case 3:
					return ErrNoAnswer
				}
				return nil
			}))
			runInBubble(t, &Server{Handler: m, Log: discardLogger()}, func(t *testing.T, l *pipeListener) {
				nc := l.dialPipe()
				defer nc.Close()
				begin := time.Now()
				for _, b := range [][]byte{stream, streamOf(2, 2, 2)} {
					_, err := nc.Write(b)
					require.NoError(t, err)
				}
				assert.Less(t, time.Since(begin), time.Second)
				assert.EqualValues(t, 0, readReplyXID(t, nc))
				assert.EqualValues(t, 1, readReplyXID(t, nc))
				go io.Copy(io.Discard, nc)
			})
		})
	}
}

// TestReaderRelievedOnOneProcessor is TestReaderRelieved on a socket, while only one
// goroutine runs at a time.
func TestReaderRelievedOnOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	w := &waitingProgram{open: make(chan struct{})}
	nc := startServer(t, &Server{Handler: w.newMux()}).dialServer()
	_, err := nc.Write(streamOf(1, 2, 1, 2))
	require.NoError(t, err)
	assert.EqualValues(t, 1, readReplyXID(t, nc))
	assert.EqualValues(t, 3, readReplyXID(t, nc))
	close(w.open)
	assert.ElementsMatch(t, []uint32{0, 2}, []uint32{readReplyXID(t, nc), readReplyXID(t, nc)})
}

// TestHeldAtTheEnd checks that replies that were held back leave before the end of the
// connection, whichever end closes it.
func TestHeldAtTheEnd(t *testing.T) {
	for name, rest := range map[string][]byte{"half-closed": nil, "drained": streamOf(2)} {
		t.Run(name, func(t *testing.T) {
			var r *testServer
			m := &Mux{Log: discardLogger()}
			m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, _ *Reply) error {
				if c.XID == 1 && rest != nil {
					for k := range r.conns { // the only one
						k.drain()
					}
				}
				return nil
			}))
			r = startServer(t, &Server{Handler: m})
			nc := r.dialServer()
			_, err := nc.Write(append(streamOf(2, 2), rest...))
			require.NoError(t, err)
			require.NoError(t, nc.CloseWrite())
			assert.EqualValues(t, 0, readReplyXID(t, nc))
			assert.EqualValues(t, 1, readReplyXID(t, nc))
			_, err = nc.Read(make([]byte, 1))
			assert.Equal(t, io.EOF, err)
		})
	}
}

// TestLongReplyHandsOver checks that while a long reply is written, other calls that
// have arrived are served.
func TestLongReplyHandsOver(t *testing.T) {
	var served atomic.Int64
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
		served.Add(1)
		if c.Proc == 1 {
			r.Head = append(r.Head, make([]byte, maxHeldBytes)...)
		}
		return nil
	}))
	runInBubble(t, &Server{Handler: m}, func(t *testing.T, l *pipeListener) {
		nc := l.dialPipe()
		_, err := nc.Write(streamOf(1, 2))
		require.NoError(t, err)
		synctest.Wait() // without the watchdog, whose time is still
		assert.EqualValues(t, 2, served.Load())
		assert.ElementsMatch(t, []uint32{0, 1}, []uint32{readReplyXID(t, nc), readReplyXID(t, nc)})
	})
}

// TestLongReplyInsideTLS is TestLongReplyHandsOver for calls that arrive later: inside of
// TLS the reader cannot know whether they have.
func TestLongReplyInsideTLS(t *testing.T) {
	for name, inside := range map[string]bool{"in clear": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			var served atomic.Int64
			m := &Mux{Log: discardLogger()}
			m.Register(testProg, 2, handlerFunc(func(_ context.Context, _ *Call, r *Reply) error {
				served.Add(1)
				r.Head = append(r.Head, make([]byte, maxHeldBytes)...)
				return nil
			}))
			s := &Server{Handler: m}
			runInBubble(t, s, func(t *testing.T, l *pipeListener) {
				nc := l.dialPipe()
				synctest.Wait()
				want := int64(1)
				if c := onlyConn(s); inside {
					c.stream = struct{ net.Conn }{c.nc}
					want = 2
				}
				_, err := nc.Write(streamOf(1))
				require.NoError(t, err)
				synctest.Wait()
				go nc.Write(streamOf(1))
				synctest.Wait() // without the watchdog
				assert.Equal(t, want, served.Load())
				for range 2 {
					readRecord(t, nc)
				}
			})
		})
	}
}

// TestKind checks that calls of one procedure are told apart by Server.Kind: a slow kind
// does not send the others to other goroutines.
func TestKind(t *testing.T) {
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, _ *Reply) error {
		if c.XID >= 100 {
			time.Sleep(time.Second)
		}
		return nil
	}))
	s := &Server{Handler: m, Kind: func(msg []byte) uint32 { return binary.BigEndian.Uint32(msg) / 100 }}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		nc := l.dialPipe()
		exchange := func(n uint32) {
			_, err := nc.Write(newRecord(newCallMessage(n, testProg, 2, 1)))
			require.NoError(t, err)
			assert.Equal(t, n, readReplyXID(t, nc))
		}
		for i := range uint32(10) {
			exchange(100 + i)
			exchange(i)
		}
		calls := onlyConn(s).turn.Calls()
		assert.GreaterOrEqual(t, calls, uint64(10), "all of the quick kind")
		assert.Less(t, calls, uint64(16), "few of the slow kind")
	})
}
