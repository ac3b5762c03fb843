package bridge

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
)

// singleProgram serves one program of a service.
type singleProgram struct {
	oncrpc.Service
	prog uint32
}

func (o singleProgram) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	if c, ok := oncrpc.ParseCall(req.Msg); ok && c.Prog != o.prog {
		return new(oncrpc.Mux).Serve(ctx, req, rep) // PROG_UNAVAIL
	}
	return o.Service.Serve(ctx, req, rep)
}

// TestMountOverTCP checks that MOUNT is found over TCP if the server has no MOUNT
// on RDMA. The server closes connections at will, and changes its port.
func TestMountOverTCP(t *testing.T) {
	var addr atomic.Value // mountd's address
	conns := make(chan net.Conn, 10)
	m := new(Mount)
	g := newTestBridge(t, bridgeOptions{
		service: func(s oncrpc.Service) oncrpc.Service { return singleProgram{s, nfs3.Program} },
		mount:   func(*testBridge) *Mount { return m },
	})
	start := func() (stop func()) {
		mountd, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr.Store(mountd.Addr().String())
		srv := &oncrpc.Server{Handler: singleProgram{g.mux, mount3.Program}, Log: slog.New(slog.DiscardHandler)}
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(mountd) }()
		return func() {
			now, cancel := context.WithCancel(context.Background())
			cancel()
			_ = srv.Shutdown(now)
			assert.NoError(t, <-ended)
		}
	}
	m.Search = nfsclient.MountSearch{
		NFS: g.client, NFSAddr: "RDMA server", Host: "server",
		Dial: func(_ context.Context, at string) (oncrpc.Caller, io.Closer, error) {
			if at != "server:20048" { // no rpcbind runs
				return nil, nil, io.EOF
			}
			nc, err := net.Dial("tcp", addr.Load().(string))
			if err != nil {
				return nil, nil, err
			}
			conns <- nc
			c := oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{})
			return c, c, nil
		},
	}
	t.Cleanup(func() { assert.NoError(t, m.Close()) })

	stop := start()
	at, err := m.Find(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "TCP server:20048", at)
	f := mountOverTCP(t, g.addr)
	_, err = f.Stat(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, conns, 1)

	(<-conns).Close()
	mountOverTCP(t, g.addr)
	require.Len(t, conns, 1, "connected again, once")

	stop()
	c := dialRaw(t, g.addr)
	msg := encodeCall(8, mount3.Program, 3, mount3.ProcExport, nil)
	c.sendMessage(msg)
	assert.Equal(t, oncrpc.AppendSystemErr(nil, 8), c.readReply(), "no answer")
	stop = start()
	defer stop()
	past := dialRaw(t, addr.Load().(string))
	c.sendMessage(msg)
	past.sendMessage(msg)
	assert.Equal(t, past.readReply(), c.readReply())
}

// TestMountOverRDMA checks that MOUNT is used over RDMA if the server has MOUNT
// on RDMA.
func TestMountOverRDMA(t *testing.T) {
	var m *Mount
	g := newTestBridge(t, bridgeOptions{mount: func(g *testBridge) *Mount {
		m = &Mount{Search: nfsclient.MountSearch{NFS: g.client, NFSAddr: "RDMA server"}}
		return m
	}})
	mountOverTCP(t, g.addr)
	at, err := m.Find(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "RDMA server", at)
	assert.Same(t, g.client, m.found.Caller())
	assert.NoError(t, m.Close())
}

// TestPortmap queries the bridge's portmapper as clients do.
func TestPortmap(t *testing.T) {
	mux := new(oncrpc.Mux)
	own := rpcbind.Services("tcp", netip.MustParseAddrPort("127.0.0.1:111"), rpcbind.Program, rpcbind.PortmapVers)
	Portmap(own, netip.MustParseAddrPort("127.0.0.1:2049")).Register(mux)
	c, err := oncrpc.DialTCP(t.Context(), serveTCP(t, mux), oncrpc.ClientConfig{})
	require.NoError(t, err)
	defer c.Close()
	for _, tt := range []struct{ prog, vers, proto, port uint32 }{
		{nfs3.Program, 3, rpcbind.TCP, 2049},
		{mount3.Program, 3, rpcbind.TCP, 2049},
		{mount3.Program, 1, rpcbind.TCP, 2049}, // the server itself reports that it lacks this version
		{rpcbind.Program, 2, rpcbind.TCP, 111},
		{nfs3.Program, 3, rpcbind.UDP, 0},
		{100021, 4, rpcbind.TCP, 0}, // NLM
	} {
		port, err := rpcbind.GetPort(t.Context(), c, tt.prog, tt.vers, tt.proto)
		assert.EqualValues(t, tt.port, port, tt.prog)
		if tt.port == 0 {
			assert.ErrorIs(t, err, rpcbind.ErrNotRegistered)
		}
	}
	list, err := rpcbind.Dump(t.Context(), c)
	require.NoError(t, err)
	assert.Len(t, list, 3)
}
