package rpcbind

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// serveBoth serves services over TCP and UDP until the test ends.
func serveBoth(t *testing.T, addr string, services []Service) *Listener {
	t.Helper()
	l, err := Listen(addr)
	require.NoError(t, err)
	s := NewServer(NewPortmapper(services), slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, s.Shutdown(context.Background()))
		assert.NoError(t, <-served)
		_, err := l.udp.WriteTo(nil, l.udp.LocalAddr())
		assert.ErrorIs(t, err, net.ErrClosed)
	})
	return l
}

// sendDatagram sends a datagram and returns the reply, or nil if none comes.
func sendDatagram(t *testing.T, c net.Conn, call []byte, within time.Duration) []byte {
	t.Helper()
	_, err := c.Write(call)
	require.NoError(t, err)
	b := make([]byte, 64<<10)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(within)))
	n, err := c.Read(b)
	if err != nil {
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		return nil
	}
	return b[:n]
}

// TestBothTransports checks that rpcbind's calls, recorded from Linux, have the
// same replies over UDP as over TCP, and that other messages have none.
func TestBothTransports(t *testing.T) {
	l := serveBoth(t, "127.0.0.1:0", services)
	tcp, err := oncrpc.DialTCP(t.Context(), l.Addr().String(), oncrpc.ClientConfig{})
	require.NoError(t, err)
	defer tcp.Close()
	got, err := Dump(t.Context(), tcp)
	require.NoError(t, err)
	assert.Equal(t, list, got)

	udp, err := net.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	defer udp.Close()
	for _, bad := range [][]byte{nil, {1, 2, 3}, append([]byte{0, 0, 0, 1, 0, 0, 0, 9}, make([]byte, 60000)...), wiretest.Hex(t, "testdata/dump-reply.hex")} {
		_, err := udp.Write(bad)
		require.NoError(t, err)
	}
	for _, name := range []string{"getport", "dump"} { // the first replies to come
		call := wiretest.Hex(t, "testdata/"+name+"-call.hex")
		assert.Equal(t, serveCall(t, call), sendDatagram(t, udp, call, 20*time.Second), name)
	}
}

// TestLongList checks that a list too long for a datagram is answered by an
// error.
func TestLongList(t *testing.T) {
	many := make([]Service, maxMappings)
	for i := range many {
		many[i] = services[0]
	}
	l := serveBoth(t, "127.0.0.1:0", many)
	udp, err := net.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	defer udp.Close()
	call := wiretest.Hex(t, "testdata/dump-call.hex")
	assert.Equal(t, oncrpc.AppendSystemErr(nil, 7), append([]byte{0, 0, 0, 7}, sendDatagram(t, udp, call, 20*time.Second)[4:]...))
}

// TestEveryAddress checks that a reply over UDP comes from the called address,
// and contains that address.
func TestEveryAddress(t *testing.T) {
	l, err := Listen(":0")
	require.NoError(t, err)
	at := addrPort(l.Addr())
	require.NoError(t, l.Close())
	hosts := []string{"127.0.0.1", "127.0.0.2"}
	if at.Addr().Is6() {
		hosts = append(hosts, "::1")
	}
	l = serveBoth(t, ":0", Services("udp", at, mount, 3))
	for _, host := range hosts {
		ip := netip.MustParseAddr(host)
		udp, err := net.Dial("udp", netip.AddrPortFrom(ip, addrPort(l.Addr()).Port()).String())
		require.NoError(t, err)
		defer udp.Close()
		call := oncrpc.AppendCall(nil, 7, &oncrpc.Exchange{Prog: Program, Vers: 4, Proc: procGetAddr}, "")
		r := xdr.NewReader(sendDatagram(t, udp, RPCB{Prog: mount, Vers: 3}.AppendTo(call), 20*time.Second))
		require.NoError(t, oncrpc.ReadReply(&r, 7), host)
		assert.Equal(t, Uaddr(netip.AddrPortFrom(ip, at.Port())), r.String(100))
	}
}

// TestFlood checks that lists over UDP stop when the budget is spent, and that a
// program's port is still returned.
func TestFlood(t *testing.T) {
	many := make([]Service, 300)
	for i := range many {
		many[i] = services[0]
	}
	l := serveBoth(t, "127.0.0.1:0", many)
	udp, err := net.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	defer udp.Close()
	dump, getport := wiretest.Hex(t, "testdata/dump-call.hex"), wiretest.Hex(t, "testdata/getport-call.hex")
	getport[3] = 8 // another XID
	lists := 0
	for range 10 * oncrpc.ExcessBurst / listLen(len(many)) {
		_, err := udp.Write(dump)
		require.NoError(t, err)
		for got := sendDatagram(t, udp, getport, 20*time.Second); got[3] != 8; {
			lists++
			b := make([]byte, oncrpc.MaxPacket)
			n, err := udp.Read(b)
			require.NoError(t, err)
			got = b[:n]
		}
	}
	assert.GreaterOrEqual(t, lists, oncrpc.ExcessBurst/listLen(len(many)))
	assert.Less(t, lists, 10*oncrpc.ExcessBurst/listLen(len(many)), "some had no answer")
}

// TestListenTaken checks that nothing listens if one of the two ports is in
// use.
func TestListenTaken(t *testing.T) {
	for name, hold := range map[string]func() (net.Addr, io.Closer, error){
		"tcp": func() (net.Addr, io.Closer, error) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			return l.Addr(), l, err
		},
		"udp": func() (net.Addr, io.Closer, error) {
			c, err := net.ListenPacket("udp", "127.0.0.1:0")
			return c.LocalAddr(), c, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for {
				taken, c, err := hold()
				require.NoError(t, err)
				defer c.Close()
				_, err = Listen(taken.String())
				require.ErrorIs(t, err, unix.EADDRINUSE)
				assert.Equal(t, 1, socketsAt(t, taken.String()), "the held address")
				if op := new(net.OpError); errors.As(err, &op) && op.Net == name {
					return
				} // otherwise others have taken that TCP port
			}
		})
	}
}

// socketsAt counts the sockets of this process that are bound to an address.
func socketsAt(t *testing.T, addr string) (n int) {
	t.Helper()
	want := netip.MustParseAddrPort(addr)
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		require.NoError(t, err)
		sa, err := unix.Getsockname(fd)
		in, ok := sa.(*unix.SockaddrInet4)
		if err == nil && ok && netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)) == want {
			n++
		}
	}
	return n
}
