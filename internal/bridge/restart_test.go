package bridge

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stampProgram is a program whose procedure 1 records the number in its arguments,
// and returns it.
type stampProgram struct {
	mu   sync.Mutex
	seen map[uint32]int
}

const stampProg = 400000

func (s *stampProgram) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	n := c.Args.Uint32()
	s.mu.Lock()
	s.seen[n]++
	s.mu.Unlock()
	r.Head = xdr.AppendUint32(r.Head, n)
	return c.Args.Done()
}

// TestRestarts checks that each call is executed once, and answered. Clients read,
// write and send non-idempotent calls while the server's connections are repeatedly
// closed in the middle of calls.
func TestRestarts(t *testing.T) {
	const clients, rounds, restarts, size = 8, 30, 10, 90001
	program := &stampProgram{seen: make(map[uint32]int)}
	g := newTestBridge(t, bridgeOptions{service: func(next oncrpc.Service) oncrpc.Service {
		next.(*oncrpc.Mux).Register(stampProg, 1, program)
		return replay.New(next, replay.Config{
			Keep: func(p rpcmsg.Procedure, _ []byte) bool { return p.Prog == stampProg },
		})
	}})
	var all sync.WaitGroup
	done := make(chan struct{}, clients*rounds)
	for i := range clients {
		data := randomBytes(size, byte(i))
		require.NoError(t, os.WriteFile(filepath.Join(g.dir, fmt.Sprint(i)), data, 0o644))
		f := mountOverTCP(t, g.addr)
		from, err := f.Open(t.Context(), fmt.Sprint(i))
		require.NoError(t, err)
		into, err := f.Create(t.Context(), fmt.Sprint(i, "-copy"), 0o644)
		require.NoError(t, err)
		c := dialRaw(t, g.addr)
		all.Go(func() {
			for j := range rounds {
				stamp := uint32(i*rounds + j)
				c.sendMessage(encodeCall(7, stampProg, 1, 1, xdr.AppendUint32(nil, stamp)))
				there := make([]byte, size)
				_, err := from.ReadAt(context.Background(), there, 0)
				assert.NoError(t, err)
				assert.True(t, bytes.Equal(data, there))
				_, err = into.WriteAt(context.Background(), there, int64(j*size))
				assert.NoError(t, err)
				reply := c.readReply()
				assert.Equal(t, xdr.AppendUint32(nil, stamp), reply[len(reply)-4:])
				done <- struct{}{}
			}
		})
	}
	for range restarts {
		for range clients * rounds / (restarts + 1) { // rounds until the next
			<-done
		}
		g.server.killServer()
		g.server.startServer()
	}
	all.Wait()
	assert.Len(t, program.seen, clients*rounds)
	for stamp, n := range program.seen {
		assert.Equal(t, 1, n, stamp)
	}
	for i := range clients {
		got, err := os.ReadFile(filepath.Join(g.dir, fmt.Sprint(i, "-copy")))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(bytes.Repeat(randomBytes(size, byte(i)), rounds), got))
	}
}

// TestServerAway checks that calls wait for an unreachable server. If that takes
// too long, only their connections are closed; new ones work once the server is
// back.
func TestServerAway(t *testing.T) {
	g := newTestBridge(t, bridgeOptions{giveUp: 300 * time.Millisecond})
	null := encodeCall(5, nfs3.Program, 3, nfs3.ProcNull, nil)
	c, idle := dialRaw(t, g.addr), dialRaw(t, g.addr)
	c.sendMessage(null)
	c.readReply()
	g.server.killServer()
	c.sendMessage(null)
	c.sendMessage(null)
	c.assertClosed()
	g.server.startServer()
	for answered := false; !answered; { // a persistent client
		c = dialRaw(t, g.addr)
		c.sendMessage(null)
		answered = c.isAnswered()
		c.Close()
	}
	idle.sendMessage(null)
	assert.Len(t, idle.readReply(), 24)
}

// TestClientLeaves checks that the calls of a lost connection are abandoned.
func TestClientLeaves(t *testing.T) {
	entered := make(chan struct{}, 1)
	g := newTestBridge(t, bridgeOptions{front: func(next oncrpc.Service) oncrpc.Service {
		return serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
			entered <- struct{}{}
			go func() { req.Peer.Cut(os.ErrClosed) }()
			defer close(entered)
			answer := next.Serve(ctx, req, rep)
			assert.False(t, answer)
			return answer
		})
	}})
	g.server.killServer()
	c := dialRaw(t, g.addr)
	c.sendMessage(encodeCall(5, nfs3.Program, 3, nfs3.ProcNull, nil))
	c.assertClosed()
	for range entered { // until Serve has returned, although the server is unreachable
	}
	g.server.startServer()
}
