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
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stamps is a program whose procedure 1 records the number in its arguments,
// and returns it.
type stamps struct {
	mu   sync.Mutex
	seen map[uint32]int
}

const stampProg = 400000

func (s *stamps) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	n := c.Args.Uint32()
	s.mu.Lock()
	s.seen[n]++
	s.mu.Unlock()
	r.Head = xdr.AppendUint32(r.Head, n)
	return c.Args.Done()
}

// TestRestarts checks that each call is executed once, and answered. Clients
// read, write and make non-idempotent calls while the server's connections are
// repeatedly cut in the midst of calls.
func TestRestarts(t *testing.T) {
	const clients, rounds, restarts, size = 8, 30, 10, 90001
	program := &stamps{seen: make(map[uint32]int)}
	g := newRig(t, setup{service: func(next oncrpc.Service) oncrpc.Service {
		next.(*oncrpc.Mux).Register(stampProg, 1, program)
		return replay.New(next, replay.Config{
			Keep: func(p rpcmsg.Procedure, _ []byte) bool { return p.Prog == stampProg },
		})
	}})
	var all sync.WaitGroup
	done := make(chan struct{}, clients*rounds)
	for i := range clients {
		data := random(size, byte(i))
		require.NoError(t, os.WriteFile(filepath.Join(g.dir, fmt.Sprint(i)), data, 0o644))
		f := mount(t, g.addr)
		from, err := f.Open(t.Context(), fmt.Sprint(i))
		require.NoError(t, err)
		into, err := f.Create(t.Context(), fmt.Sprint(i, "-copy"), 0o644)
		require.NoError(t, err)
		c := dialRaw(t, g.addr)
		all.Go(func() {
			for j := range rounds {
				stamp := uint32(i*rounds + j)
				c.send(call(7, stampProg, 1, 1, xdr.AppendUint32(nil, stamp)))
				there := make([]byte, size)
				_, err := from.ReadAt(context.Background(), there, 0)
				assert.NoError(t, err)
				assert.True(t, bytes.Equal(data, there))
				_, err = into.WriteAt(context.Background(), there, int64(j*size))
				assert.NoError(t, err)
				reply := c.reply()
				assert.Equal(t, xdr.AppendUint32(nil, stamp), reply[len(reply)-4:])
				done <- struct{}{}
			}
		})
	}
	for range restarts {
		for range clients * rounds / (restarts + 1) { // rounds until the next
			<-done
		}
		g.far.stop()
		g.far.start()
	}
	all.Wait()
	assert.Len(t, program.seen, clients*rounds)
	for stamp, n := range program.seen {
		assert.Equal(t, 1, n, stamp)
	}
	for i := range clients {
		got, err := os.ReadFile(filepath.Join(g.dir, fmt.Sprint(i, "-copy")))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(bytes.Repeat(random(size, byte(i)), rounds), got))
	}
}

// TestServerAway checks that calls wait for a server that is away. If that
// takes too long, only their connections are cut; new ones work once the server
// is back.
func TestServerAway(t *testing.T) {
	g := newRig(t, setup{giveUp: 300 * time.Millisecond})
	null := call(5, nfs3.Program, 3, nfs3.ProcNull, nil)
	c, idle := dialRaw(t, g.addr), dialRaw(t, g.addr)
	c.send(null)
	c.reply()
	g.far.stop()
	c.send(null)
	c.send(null)
	c.closed()
	g.far.start()
	for answered := false; !answered; { // a persistent client
		c = dialRaw(t, g.addr)
		c.send(null)
		answered = c.answered()
		c.Close()
	}
	idle.send(null)
	assert.Len(t, idle.reply(), 24)
}

// TestClientLeaves checks that the calls of a lost connection are given up.
func TestClientLeaves(t *testing.T) {
	entered := make(chan struct{}, 1)
	g := newRig(t, setup{front: func(next oncrpc.Service) oncrpc.Service {
		return service(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
			entered <- struct{}{}
			go func() { req.Peer.Cut(os.ErrClosed) }()
			defer close(entered)
			answer := next.Serve(ctx, req, rep)
			assert.False(t, answer)
			return answer
		})
	}})
	g.far.stop()
	c := dialRaw(t, g.addr)
	c.send(call(5, nfs3.Program, 3, nfs3.ProcNull, nil))
	c.closed()
	for range entered { // until Serve has returned, even though the server is away
	}
	g.far.start()
}
