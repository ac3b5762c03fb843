package nfsrdma

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A countingDialer counts the connections that it makes.
type countingDialer struct {
	rdma.Dialer
	n atomic.Int32
}

func (d *countingDialer) Dial(ctx context.Context, addr string, cc rdma.ConnConfig) (rdma.Conn, error) {
	d.n.Add(1)
	return d.Dialer.Dial(ctx, addr, cc)
}

// A countingCaller counts the calls through it.
type countingCaller struct {
	oncrpc.Caller
	n atomic.Int32
}

func (c *countingCaller) Call(ctx context.Context, x *oncrpc.Exchange) error {
	c.n.Add(1)
	return c.Caller.Call(ctx, x)
}

// A brokenDialer fails with its error.
type brokenDialer struct{ error }

func (d brokenDialer) Dial(context.Context, string, rdma.ConnConfig) (rdma.Conn, error) {
	return nil, d.error
}

// TestClientHooks checks that a Client connects with the configured Dialer, makes its NFS
// calls through Wrap, and returns the Dialer's error.
func TestClientHooks(t *testing.T) {
	r := startServer(t, ServerConfig{Exports: []nfsserver.Export{{Path: "/x", FS: mem.New(mem.Options{})}}})
	var dialer countingDialer
	var calls countingCaller
	c := r.dialServer(t, ClientConfig{
		Connections: 2,
		Dialer: func(device *iwarp.Device) rdma.Dialer {
			dialer.Dialer = device
			return &dialer
		},
		Wrap: func(next oncrpc.Caller) oncrpc.Caller {
			calls.Caller = next
			return &calls
		},
	})
	assert.EqualValues(t, 2, dialer.n.Load(), "connections")
	assert.True(t, c.Up())
	before := calls.n.Load()
	require.NoError(t, c.NFS().Null(t.Context()))
	assert.Equal(t, before+1, calls.n.Load())

	broken := errors.New("a broken dialer")
	_, err := Dial(t.Context(), r.rdma, ClientConfig{Log: silent, Dialer: func(*iwarp.Device) rdma.Dialer { return brokenDialer{broken} }})
	assert.ErrorIs(t, err, broken)
}

// TestOffers checks which extensions each connection offers.
func TestOffers(t *testing.T) {
	held := delegclient.New(delegclient.Config{Log: silent})
	defer held.Close()
	c := &Client{cfg: ClientConfig{Delegations: held}}
	for range 2 {
		x := c.connConfig(nil).Conn.Extensions
		assert.True(t, x != nil && x.Delegation)
	}
	c.cfg.StandardsOnly = true
	assert.Nil(t, c.connConfig(nil).Conn.Extensions)
	c.cfg = ClientConfig{}
	x := c.connConfig(nil).Conn.Extensions
	assert.True(t, x != nil && x.Atomics && !x.Delegation)
}

// TestCloseMOUNT checks that after CloseMOUNT a Client can still mount, and still tells
// the server about its Close.
func TestCloseMOUNT(t *testing.T) {
	r := startServer(t, ServerConfig{Exports: []nfsserver.Export{{Path: "/x", FS: mem.New(mem.Options{})}}})
	watch := r.dialServer(t, ClientConfig{})
	c := r.dialServer(t, ClientConfig{})
	users := func() int {
		m, err := watch.MOUNT(t.Context())
		require.NoError(t, err)
		list, err := m.Dump(t.Context())
		require.NoError(t, err)
		return len(list)
	}
	c.CloseMOUNT() // without a connection
	_, err := c.Mount(t.Context(), "/x")
	require.NoError(t, err)
	c.CloseMOUNT()
	_, err = c.Mount(t.Context(), "/x")
	require.NoError(t, err)
	assert.Equal(t, 1, users())
	c.CloseMOUNT()
	require.NoError(t, c.Close())
	assert.Zero(t, users())
}

// TestCloseMOUNTBusy checks that CloseMOUNT does not wait for a call without a reply, and
// that the connection is closed when that call ends.
func TestCloseMOUNTBusy(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	r := startServer(t, ServerConfig{
		Exports: []nfsserver.Export{{Path: "/x", FS: mem.New(mem.Options{})}},
		Wrap: func(next oncrpc.Service) oncrpc.Service {
			return countedService{next, func(req *oncrpc.Request) {
				word := func(i int) uint32 { return uint32(req.Msg[4*i+2])<<8 | uint32(req.Msg[4*i+3]) }
				if word(3) == mount3.Program&0xffff && word(5) == mount3.ProcMnt {
					held <- struct{}{}
					<-release
				}
			}}
		},
	})
	c := r.dialServer(t, ClientConfig{})
	mounted, closed := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := c.Mount(t.Context(), "/x")
		mounted <- err
	}()
	<-held
	go func() {
		c.CloseMOUNT()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("CloseMOUNT waits for another call")
	}
	close(release)
	assert.NoError(t, <-mounted)
	<-closed
	c.turn <- struct{}{}
	assert.Nil(t, c.mount, "the connection to MOUNT")
	<-c.turn
}

// TestExportsOnce checks that errors of Mount name the exports, and that many such errors
// need one call.
func TestExportsOnce(t *testing.T) {
	var lists atomic.Int32
	r := startServer(t, ServerConfig{
		Exports: []nfsserver.Export{{Path: "/here", FS: mem.New(mem.Options{})}},
		Wrap: func(next oncrpc.Service) oncrpc.Service {
			return countedService{next, func(req *oncrpc.Request) {
				word := func(i int) uint32 { return uint32(req.Msg[4*i+2])<<8 | uint32(req.Msg[4*i+3]) }
				if word(3) == mount3.Program&0xffff && word(5) == mount3.ProcExport {
					lists.Add(1)
				}
			}}
		},
	})
	c := r.dialServer(t, ClientConfig{})
	for range 3 {
		_, err := c.Mount(t.Context(), "/elsewhere")
		assert.ErrorContains(t, err, `it exports "/here"`)
	}
	assert.EqualValues(t, 1, lists.Load())
	list, err := c.Exports(t.Context())
	require.NoError(t, err)
	assert.Len(t, list, 1)
	assert.EqualValues(t, 2, lists.Load(), "Exports asks again")
}

// TestCloseDuringMount checks that a Mount without a reply does not block other calls
// beyond the end of their contexts, that Close ends the Mount, and that a closed Client
// does not reconnect to MOUNT.
func TestCloseDuringMount(t *testing.T) {
	held, release := make(chan struct{}, 1), make(chan struct{})
	unblock := sync.OnceFunc(func() { close(release) })
	r := startServer(t, ServerConfig{
		Exports: []nfsserver.Export{{Path: "/x", FS: mem.New(mem.Options{})}},
		Wrap: func(next oncrpc.Service) oncrpc.Service {
			return countedService{next, func(req *oncrpc.Request) {
				word := func(i int) uint32 { return uint32(req.Msg[4*i+2])<<8 | uint32(req.Msg[4*i+3]) }
				if word(3) == mount3.Program&0xffff && word(5) == mount3.ProcMnt {
					held <- struct{}{}
					<-release
				}
			}}
		},
	})
	_, port, err := net.SplitHostPort(r.tcp)
	require.NoError(t, err)
	over, err := strconv.Atoi(port)
	require.NoError(t, err)
	for _, port := range []int{0, over} { // MOUNT over RDMA, and over TCP
		c := r.dialServer(t, ClientConfig{MountPort: port})
		t.Cleanup(unblock) // before the Close of a broken Client
		mounted, left, closed := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := c.Mount(context.Background(), "/x")
			mounted <- err
		}()
		<-held
		short, cancel := context.WithCancelCause(context.Background())
		gone := errors.New("the caller has gone")
		cancel(gone)
		ended := func(call <-chan error) error {
			select {
			case err := <-call:
				return err
			case <-time.After(20 * time.Second):
				t.Fatal("a call waits for a server that does not answer")
				return nil
			}
		}
		go func() {
			_, err := c.Exports(short)
			left <- err
		}()
		assert.ErrorIs(t, ended(left), gone)
		go func() { closed <- c.Close() }()
		assert.ErrorIs(t, ended(mounted), rdma.ErrClosed)
		assert.NoError(t, ended(closed))
		_, err := c.Exports(t.Context())
		assert.ErrorIs(t, err, rdma.ErrClosed)
		_, err = c.MOUNT(t.Context())
		assert.ErrorIs(t, err, rdma.ErrClosed)
		assert.Nil(t, c.mount, "a connection to MOUNT")
	}
}

// A countedService reports each call.
type countedService struct {
	oncrpc.Service
	each func(*oncrpc.Request)
}

func (s countedService) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	s.each(req)
	return s.Service.Serve(ctx, req, rep)
}
