package nlmserver

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
)

// TestDial: RNLM-GRANTED-1, RNLM-LINUX-3: calls go to the port that the client's rpcbind names, by TCP or else by UDP, and from the
// address that the client has called.
func TestDial(t *testing.T) {
	g := newTestServer(t)
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			tcp, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
			require.NoError(t, err)
			seen := make(chan *oncrpc.Peer, 10)
			calls := observedService{g.mux, seen}
			server := &oncrpc.Server{Handler: calls}
			go server.Serve(tcp)
			udp, err := oncrpc.ListenPackets(net.JoinHostPort(host, "0"))
			require.NoError(t, err)
			go udp.Serve(Alone(calls))
			bind, err := rpcbind.Listen(net.JoinHostPort(host, "0"))
			require.NoError(t, err)
			port := netip.MustParseAddrPort(bind.Addr().String()).Port()
			services := append(rpcbind.Services("tcp", tcp.Addr().(*net.TCPAddr).AddrPort(), nlm4.Program, 4), rpcbind.Services("udp", udp.Addr().(*net.UDPAddr).AddrPort(), nsm.Program, 1)...)
			portmapper := rpcbind.NewServer(rpcbind.NewPortmapper(services), nil)
			go portmapper.Serve(bind)
			t.Cleanup(func() {
				for _, s := range []interface{ Shutdown(context.Context) error }{server, udp, portmapper} {
					assert.NoError(t, s.Shutdown(context.Background()))
				}
			})
			m := nfs4state.Machine{Addr: netip.MustParseAddr(host), Local: netip.MustParseAddr(host)}
			if m.Addr.Is4() {
				m.Local = netip.MustParseAddr("127.0.0.9")
			}
			for prog, network := range map[uint32]string{nlm4.Program: "tcp", nsm.Program: "udp"} {
				vers := uint32(4)
				if prog == nsm.Program {
					vers = 1
				}
				l, err := dialer{m, port}.dialProgram(t.Context(), prog, vers)
				require.NoError(t, err)
				x := oncrpc.Exchange{Prog: prog, Vers: vers}
				require.NoError(t, l.Call(t.Context(), &x))
				x.Release()
				peer := <-seen
				assert.Equal(t, network, peer.Network)
				assert.Equal(t, m.Local, peer.Addr.Addr())
				x.Proc = 99
				assert.ErrorIs(t, l.Call(t.Context(), &x), oncrpc.ErrProcUnavail)
				<-seen
				require.NoError(t, l.Close())
			}
			_, err = dialer{m, port}.dialProgram(t.Context(), 100099, 1)
			assert.ErrorIs(t, err, rpcbind.ErrNotRegistered)
		})
	}
	_, err := dialHost(t.Context(), nfs4state.Machine{}, nlm4.Program, 4)
	assert.ErrorIs(t, err, errNoAddress)
}

// observedService is a service that reports its callers.
type observedService struct {
	oncrpc.Service
	seen chan *oncrpc.Peer
}

func (o observedService) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	o.seen <- req.Peer
	return o.Service.Serve(ctx, req, rep)
}

// TestAlone checks that a transport for locks carries no other program.
func TestAlone(t *testing.T) {
	g := newTestServer(t)
	mux := new(oncrpc.Mux)
	g.s.Register(mux)
	mux.Register(100003, 3, lockManager{g.s, 4})
	g.mux = mux
	c := g.newClient("192.0.2.1", "a")
	alone := Alone(mux)
	for prog, vers := range map[uint32]uint32{nlm4.Program: 4, nsm.Program: 1, 100003: 3} {
		var rep oncrpc.Reply
		msg := oncrpc.AppendCall(nil, 1, &oncrpc.Exchange{Prog: prog, Vers: vers}, "")
		require.True(t, alone.Serve(t.Context(), &oncrpc.Request{Msg: msg, Peer: &c.peer, MaxReply: 1000}, &rep))
		assert.Equal(t, prog == 100003, rep.Head[len(rep.Head)-1] == 1, "PROG_UNAVAIL")
	}
	assert.False(t, alone.Serve(t.Context(), &oncrpc.Request{Msg: []byte("short"), Peer: &c.peer}, new(oncrpc.Reply)))
}
