package oncrpc

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fillMemory acquires all of a memory except but bytes for other parties, until free
// is called.
func fillMemory(t *testing.T, m *fairshare.Memory, but int64) (free func()) {
	t.Helper()
	a, b := m.Part(), m.Part()
	require.True(t, a.TryAcquire(partyMemoryLimit))
	require.True(t, b.TryAcquire(partyMemoryLimit-but))
	return func() {
		a.Release(partyMemoryLimit)
		b.Release(partyMemoryLimit - but)
	}
}

// TestMemoryOfRequests checks that large records wait for memory, and that
// small records and other connections do not.
func TestMemoryOfRequests(t *testing.T) {
	s := &Server{Handler: echoMux()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		a, b, c := l.dialPipe(), l.dialPipe(), l.dialPipe()
		defer a.Close()
		defer b.Close()
		defer c.Close()
		free := fillMemory(t, s.requestMemory, 20000)
		large := make([]byte, 9000)
		go a.Write(newRecord(echoCall(1, procHead, large)))
		readRecord(t, a)
		go b.Write(newRecord(echoCall(2, procHead, append(large, large...))))
		synctest.Wait()
		_, err := c.Write(newRecord(echoCall(3, procHead, nil)))
		require.NoError(t, err)
		readRecord(t, c)

		time.Sleep(10 * recordTimeout) // the peer is not cut for this wait
		free()
		got := readRecord(t, b)
		assert.Len(t, got, len(echoReply(2, procHead, append(large, large...))))
	})
}

func TestMemoryOfReplies(t *testing.T) {
	s := &Server{Handler: echoMux()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		a, b := l.dialPipe(), l.dialPipe()
		defer a.Close()
		defer b.Close()
		free := fillMemory(t, s.replyMemory, 10000)
		large := make([]byte, 6000)
		for _, nc := range []net.Conn{a, b} {
			go nc.Write(append(newRecord(echoCall(1, procEcho, large)), newRecord(echoCall(2, procEcho, nil))...))
			synctest.Wait() // a has the memory first, and b waits until a's reply is read
		}
		readRecord(t, a)
		readRecord(t, b)
		readRecord(t, a)
		readRecord(t, b)
		free()
	})
}

// TestMemoryOfSecondItem checks that a handler that replaces its item does not
// wait for itself.
func TestMemoryOfSecondItem(t *testing.T) {
	m := new(Mux)
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
		n := int(c.Args.Uint32())
		r.NewItem(n)
		r.NewItem(n)
		r.DropItem()
		return nil
	}))
	s := &Server{Handler: m}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		free := fillMemory(t, s.replyMemory, 20000)
		nc := l.dialPipe()
		defer nc.Close()
		go nc.Write(newRecord(newCallMessage(1, testProg, 2, 1, 0, 0, 10000>>8, 10000&0xff)))
		assert.Equal(t, rpcmsg.AppendAccepted(nil, 1, rpcmsg.Success), readRecord(t, nc))
		free()
		// a request above the bound waits only for the bound
		go nc.Write(newRecord(newCallMessage(2, testProg, 2, 1, memoryLimit>>24, 0, 0, 4)))
		assert.Equal(t, rpcmsg.AppendAccepted(nil, 2, rpcmsg.Success), readRecord(t, nc))
	})
}

// TestShutdownFreesWaiting checks that Shutdown drops a record that waits for
// memory, which is no call yet, and lets a call whose reply waits for memory
// finish.
func TestShutdownFreesWaiting(t *testing.T) {
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, _ *Call, r *Reply) error {
		r.NewItem(9000)
		r.DropItem()
		return nil
	}))
	for name, tt := range map[string]struct {
		call []byte
		took time.Duration
		err  error
	}{
		"request": {newRecord(echoCall(1, procEcho, make([]byte, 9000))), 0, nil},
		"reply":   {newRecord(newCallMessage(1, testProg, 2, 1)), time.Minute, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{Handler: m}
			runInBubble(t, s, func(t *testing.T, l *pipeListener) {
				freeRequests, freeReplies := fillMemory(t, s.requestMemory, 0), fillMemory(t, s.replyMemory, 0)
				nc := l.dialPipe()
				go nc.Write(tt.call)
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				before := time.Now()
				assert.ErrorIs(t, s.Shutdown(ctx), tt.err)
				assert.Equal(t, tt.took, time.Since(before))
				freeRequests()
				freeReplies()
			})
		})
	}
}
