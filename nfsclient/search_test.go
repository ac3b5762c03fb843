package nfsclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A fakeCaller handles the calls at an address in a fakeNetwork.
type fakeCaller func(ctx context.Context, x *oncrpc.Exchange) error

func (a fakeCaller) Call(ctx context.Context, x *oncrpc.Exchange) error { return a(ctx, x) }

// The possible behaviors of an address.
var (
	refused   = fakeCaller(nil) // nothing listens
	noProgram = fakeCaller(func(context.Context, *oncrpc.Exchange) error { return &oncrpc.ReplyError{Stat: 1} })
	silent    = fakeCaller(func(ctx context.Context, _ *oncrpc.Exchange) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	mountd = fakeCaller(func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Prog != mount3.Program || x.Vers != mount3.Version || x.Proc != mount3.ProcNull {
			return &oncrpc.ReplyError{Stat: 1}
		}
		x.Results = xdr.NewReader(nil)
		return nil
	})
)

// rpcbindAt replies to GETPORT for MOUNT version 3 over TCP with port.
func rpcbindAt(port uint32) fakeCaller {
	return func(_ context.Context, x *oncrpc.Exchange) error {
		if x.Prog != 100000 || x.Vers != 2 || x.Proc != 3 {
			return &oncrpc.ReplyError{Stat: 3}
		}
		want := []byte{0, 1, 0x86, 0xa5, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 0} // RFC 1833, Section 3.1
		if string(x.Args) != string(want) || x.MaxResults != 4 {
			return &oncrpc.ReplyError{Stat: 4}
		}
		x.Results = xdr.NewReader(xdr.AppendUint32(nil, port))
		return nil
	}
}

// A fakeNetwork holds the addresses that can be dialed, and records dialed
// addresses.
type fakeNetwork struct {
	t      *testing.T
	at     map[string]fakeCaller
	dialed []string
	open   int
}

func (n *fakeNetwork) Close() error {
	n.open--
	return nil
}

func (n *fakeNetwork) dialAddr(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error) {
	n.dialed = append(n.dialed, addr)
	a := n.at[addr]
	if a == nil {
		return nil, nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	n.open++
	return a, n, nil
}

func TestMountSearch(t *testing.T) {
	for _, tt := range []struct {
		name   string
		search MountSearch
		at     map[string]fakeCaller
		found  string   // or ""
		dialed []string // in order
	}{
		{
			name: "on the NFS connection", search: MountSearch{NFS: mountd, Host: "srv"}, found: "RDMA srv:20049",
		},
		{
			name: "by rpcbind", search: MountSearch{NFS: noProgram, Host: "srv"},
			at:    map[string]fakeCaller{"srv:111": rpcbindAt(601), "srv:601": mountd},
			found: "TCP srv:601", dialed: []string{"srv:111", "srv:601"},
		},
		{
			name: "without rpcbind", search: MountSearch{NFS: noProgram, Host: "srv"},
			at:    map[string]fakeCaller{"srv:20048": mountd},
			found: "TCP srv:20048", dialed: []string{"srv:111", "srv:20048"},
		},
		{
			name: "not registered", search: MountSearch{NFS: noProgram, Host: "srv"},
			at:    map[string]fakeCaller{"srv:111": rpcbindAt(0), "srv:20048": mountd},
			found: "TCP srv:20048", dialed: []string{"srv:111", "srv:20048"},
		},
		{
			name: "rpcbind is wrong", search: MountSearch{NFS: noProgram, Host: "srv"},
			at:    map[string]fakeCaller{"srv:111": rpcbindAt(601), "srv:601": noProgram, "srv:20048": mountd},
			found: "TCP srv:20048", dialed: []string{"srv:111", "srv:601", "srv:20048"},
		},
		{
			name: "no NFS connection", search: MountSearch{Host: "::1"},
			at:    map[string]fakeCaller{"[::1]:111": rpcbindAt(20048), "[::1]:20048": mountd},
			found: "TCP [::1]:20048", dialed: []string{"[::1]:111", "[::1]:20048"},
		},
		{
			name: "mountport", search: MountSearch{NFS: mountd, Host: "srv", MountPort: 7},
			at:    map[string]fakeCaller{"srv:7": mountd},
			found: "TCP srv:7", dialed: []string{"srv:7"},
		},
		{
			name: "mounthost", search: MountSearch{NFS: mountd, Host: "srv", MountHost: "other"},
			at:    map[string]fakeCaller{"other:111": rpcbindAt(9), "other:9": mountd},
			found: "TCP other:9", dialed: []string{"other:111", "other:9"},
		},
		{
			name: "both", search: MountSearch{NFS: mountd, Host: "srv", MountHost: "other", MountPort: 7},
			at:    map[string]fakeCaller{"other:7": mountd},
			found: "TCP other:7", dialed: []string{"other:7"},
		},
		{
			name: "nowhere", search: MountSearch{NFS: noProgram, Host: "srv"},
			at:     map[string]fakeCaller{"srv:20048": refused},
			dialed: []string{"srv:111", "srv:20048"},
		},
		{
			name: "not twice in vain", search: MountSearch{NFS: noProgram, Host: "srv"},
			at:     map[string]fakeCaller{"srv:111": rpcbindAt(20048), "srv:20048": noProgram},
			dialed: []string{"srv:111", "srv:20048"},
		},
		{
			name: "mountport in vain", search: MountSearch{NFS: mountd, Host: "srv", MountPort: 7},
			at:     map[string]fakeCaller{"srv:7": noProgram, "srv:20048": mountd},
			dialed: []string{"srv:7"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &fakeNetwork{t: t, at: tt.at}
			tt.search.Dial, tt.search.NFSAddr = n.dialAddr, "RDMA srv:20049"
			m, err := tt.search.Find(t.Context())
			assert.Equal(t, tt.dialed, n.dialed)
			if tt.found == "" {
				var e *SearchError
				require.ErrorAs(t, err, &e)
				assert.Zero(t, n.open, "connections left open")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.found, m.At())
			assert.NoError(t, m.Null(t.Context()))
			assert.NoError(t, m.Close())
			assert.Zero(t, n.open, "connections left open")
		})
	}
}

// TestSearchError checks that the error names each step with its address, and a
// remedy.
func TestSearchError(t *testing.T) {
	n := &fakeNetwork{t: t, at: map[string]fakeCaller{"srv:111": rpcbindAt(0)}}
	s := MountSearch{NFS: noProgram, NFSAddr: "RDMA srv:20049", Host: "srv", Dial: n.dialAddr}
	_, err := s.Find(t.Context())
	assert.EqualError(t, err, "no MOUNT service found on srv (RDMA srv:20049: MOUNT: oncrpc: the server does not have the program; "+
		"rpcbind at srv:111: rpcbind: program not registered: program 100005 version 3, IP protocol 6; TCP srv:20048: dial tcp: connection refused): "+
		"start rpcbind and mountd there, open their ports to this host, or name the port with mountport=N")
	assert.ErrorIs(t, err, oncrpc.ErrProgUnavail)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)

	s = MountSearch{Host: "srv", MountPort: 7, Dial: n.dialAddr}
	_, err = s.Find(t.Context())
	assert.EqualError(t, err, "no MOUNT service found on srv (TCP srv:7: dial tcp: connection refused): "+
		"start mountd there, or correct mountport and mounthost")
}

// TestSearchProtected checks that MOUNT is reached over its own connection,
// even if rpcbind returns its own port: an unencrypted lie must not lead to
// unencrypted calls.
func TestSearchProtected(t *testing.T) {
	for _, port := range []uint32{601, 111} {
		clear := &fakeNetwork{t: t, at: map[string]fakeCaller{"srv:111": rpcbindAt(port)}}
		protected := &fakeNetwork{t: t, at: map[string]fakeCaller{"srv:601": mountd, "srv:111": mountd}}
		s := MountSearch{Host: "srv", Dial: clear.dialAddr, DialMOUNT: protected.dialAddr}
		m, err := s.Find(t.Context())
		require.NoError(t, err)
		assert.NoError(t, m.Close())
		assert.Equal(t, []string{"srv:111"}, clear.dialed)
		assert.Len(t, protected.dialed, 1)
	}
}

func TestSearchHostilePort(t *testing.T) {
	for results, want := range map[string]error{"": xdr.ErrShort, "\x00\x01\x00\x00": xdr.ErrValue, "\xff\xff\xff\xff": xdr.ErrValue} {
		n := &fakeNetwork{t: t, at: map[string]fakeCaller{"srv:111": func(_ context.Context, x *oncrpc.Exchange) error {
			x.Results = xdr.NewReader([]byte(results))
			return nil
		}}}
		s := MountSearch{Host: "srv", Dial: n.dialAddr}
		_, err := s.Find(t.Context())
		assert.ErrorIs(t, err, want)
		assert.Equal(t, []string{"srv:111", "srv:20048"}, n.dialed)
	}
}

// TestSearchSilent checks that the search on a silent server stops within ten
// seconds.
func TestSearchSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNetwork{t: t, at: map[string]fakeCaller{"srv:111": silent, "srv:20048": silent}}
		s := MountSearch{NFS: silent, NFSAddr: "RDMA", Host: "srv", Dial: n.dialAddr}
		start := time.Now()
		_, err := s.Find(t.Context())
		assert.ErrorContains(t, err, "no answer within 2s")
		assert.Equal(t, 6*time.Second, time.Since(start))
		s.stepTime = time.Millisecond
		start = time.Now()
		_, err = s.Find(t.Context())
		assert.Error(t, err)
		assert.Equal(t, 3*time.Millisecond, time.Since(start))
		assert.Zero(t, n.open)

		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Microsecond, why)
		defer cancel()
		n.dialed = nil
		_, err = s.Find(ctx)
		assert.Equal(t, why, err)
		assert.Empty(t, n.dialed)
	})
}

// TestSearchOverTCP checks a search over real connections: root's come from
// ports that mountd considers secure.
func TestSearchOverTCP(t *testing.T) {
	w, _ := newTestMount(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &oncrpc.Server{Handler: w.mux}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	addr := netip.MustParseAddrPort(l.Addr().String())
	s := MountSearch{Host: addr.Addr().String(), MountPort: int(addr.Port())}
	m, err := s.Find(t.Context())
	require.NoError(t, err)
	_, err = m.Mnt(t.Context(), "/x")
	assert.NoError(t, err)
	if os.Geteuid() == 0 {
		assert.Less(t, m.conn.(*oncrpc.TCPClient).NetConn().LocalAddr().(*net.TCPAddr).Port, 1024)
	}
	assert.NoError(t, m.Close())
	assert.NoError(t, srv.Shutdown(t.Context()))
	assert.NoError(t, <-served)
	_, err = s.Find(t.Context())
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}
