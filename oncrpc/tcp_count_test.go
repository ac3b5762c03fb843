package oncrpc

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// waitingProgram is a program whose procedure 1 waits until open is closed, after it
// has stepped aside if aside is set. Other procedures do not wait.
type waitingProgram struct {
	running, served atomic.Int64
	aside           bool
	open            chan struct{}
}

func (w *waitingProgram) newMux() *Mux {
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
		if c.Proc == 1 {
			w.running.Add(1)
			if w.aside {
				r.StepAside()
				r.StepAside() // the second has no effect
			}
			<-w.open
			w.running.Add(-1)
		}
		w.served.Add(1)
		return nil
	}))
	return m
}

// floodCalls sends n calls of procedure 1 and a last call of another procedure
// without waiting, and discards the replies.
func floodCalls(nc net.Conn, n int, last uint32) {
	go func() { _, _ = io.Copy(io.Discard, nc) }()
	go func() {
		proc := uint32(1)
		for xid := range uint32(n + 1) {
			if xid == uint32(n) {
				proc = last
			}
			if _, err := nc.Write(newRecord(newCallMessage(xid, testProg, 2, proc))); err != nil {
				return
			}
		}
	}()
	time.Sleep(time.Second) // the watchdog relieves readers
	synctest.Wait()
}

// TestWaitingCallsAreBounded checks that a party with many waiting calls, each
// with a goroutine, gets few further calls for each connection, while other
// parties are not affected. All calls are served in the end.
func TestWaitingCallsAreBounded(t *testing.T) {
	s := &Server{Log: discardLogger()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		w := &waitingProgram{open: make(chan struct{})}
		s.Handler = w.newMux()
		const conns, counted = 60, callMemoryLimit / 2 / callCost
		var all []net.Conn
		for range conns {
			nc := l.dialFrom(1)
			all = append(all, nc)
			floodCalls(nc, maxCalls-1, 1)
		}
		assert.EqualValues(t, 2048, counted)
		assert.LessOrEqual(t, w.running.Load(), int64(counted+conns*(freeCalls+1)))
		assert.GreaterOrEqual(t, w.running.Load(), int64(counted+conns*freeCalls))
		before := w.running.Load()
		other := l.dialFrom(2)
		all = append(all, other)
		floodCalls(other, maxCalls-1, 1)
		assert.EqualValues(t, maxCalls, w.running.Load()-before)

		close(w.open)
		synctest.Wait()
		assert.EqualValues(t, (conns+1)*maxCalls, w.served.Load())
		closeAll(all)
		synctest.Wait()
		assert.Zero(t, s.callMemory.InUse())
	})
}

// TestStepAside checks that calls that have stepped aside never keep other
// calls of their connection from being read, and that the end of the connection
// waits for them too.
func TestStepAside(t *testing.T) {
	for name, taken := range map[string]int64{"turn passed on": 0, "turn kept": callMemoryLimit / 2} {
		t.Run(name, func(t *testing.T) {
			s := &Server{Log: discardLogger()}
			runInBubble(t, s, func(t *testing.T, l *pipeListener) {
				w := &waitingProgram{aside: true, open: make(chan struct{})}
				s.Handler = w.newMux()
				nc := l.dialFrom(1)
				synctest.Wait()
				part := onlyConn(s).memory.calls
				assert.True(t, part.TryAcquire(taken))
				floodCalls(nc, 10*maxCalls, 2)
				assert.EqualValues(t, 10*maxCalls, w.running.Load())
				assert.EqualValues(t, 1, w.served.Load(), "what ends the wait of others")
				nc.Close()
				synctest.Wait()
				assert.Equal(t, 1, s.Stats().Now)
				close(w.open)
				synctest.Wait()
				assert.Zero(t, s.Stats().Now)
				part.Release(taken)
			})
		})
	}
}

func onlyConn(s *Server) (c *tcpConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c = range s.conns {
	}
	return c
}
