package iwarp

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A fakeTLSConn imitates a connection inside TLS.
type fakeTLSConn struct{ net.Conn }

func fakeSecure(_ context.Context, nc net.Conn) (net.Conn, error) { return fakeTLSConn{nc}, nil }
func noSecure(_ context.Context, nc net.Conn) (net.Conn, error)   { return nc, nil }

// A fakeCipherConn imitates one, too: this process reads and changes all bytes.
type fakeCipherConn struct{ net.Conn }

func fakeCipher(_ context.Context, nc net.Conn) (net.Conn, error) { return fakeCipherConn{nc}, nil }

func (c fakeCipherConn) Read(p []byte) (n int, err error) {
	n, err = c.Conn.Read(p)
	for i := range p[:n] {
		p[i] ^= 0x5a
	}
	return n, err
}

// WriteBuffers does what connections inside TLS do.
func (c fakeCipherConn) WriteBuffers(v *net.Buffers) (int64, error) {
	var all []byte
	for _, p := range *v {
		for _, b := range p {
			all = append(all, b^0x5a)
		}
	}
	n, err := c.Conn.Write(all)
	return int64(n), err
}

func (c fakeCipherConn) Write(p []byte) (int, error) {
	n, err := c.WriteBuffers(&net.Buffers{p})
	return int(n), err
}

// A fakeKernelConn imitates a connection that the kernel protects: only the kernel sees the bytes.
type fakeKernelConn struct{ *net.TCPConn }

func fakeKernelTLS(_ context.Context, nc net.Conn) (net.Conn, error) {
	return fakeKernelConn{nc.(*net.TCPConn)}, nil
}

func (c fakeKernelConn) SendsMapped() bool { return true }

func (c fakeKernelConn) WriteBuffers(v *net.Buffers) (int64, error) { return v.WriteTo(c.TCPConn) }

func (c fakeKernelConn) ReadBuffers(v [][]byte) (n int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, failed = unix.Readv(int(fd), v)
		return failed != unix.EAGAIN
	})
	if err = errors.Join(err, failed); n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

// TestProtectedMapping checks that a file's mapping is not read by the protection itself, which
// would fault if the file was truncated: TestTruncated has the rest.
func TestProtectedMapping(t *testing.T) {
	checkLeaks(t)
	a, _ := connectPair(t, transports["protected"])
	assert.False(t, a.SendsMapped())
	assert.IsType(t, fakeCipherConn{}, a.NetConn())
	b, _ := connectPair(t, transports["protected by the kernel"])
	assert.True(t, b.SendsMapped())
}

// connectDevices connects two devices, and returns the initiator's connection, or the error.
func connectDevices(t *testing.T, client, server Config) (*Conn, error) {
	l, err := Open(server).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	accepting, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() {
		req, err := l.Accept(accepting)
		if err != nil {
			return
		}
		if c, err := req.Accept(rdma.ConnConfig{Handler: discardHandler{}}); err == nil {
			t.Cleanup(func() { c.Close() })
		}
	}()
	c, err := Open(client).Dial(t.Context(), l.Addr().String(), rdma.ConnConfig{Handler: discardHandler{}})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return c.(*Conn), nil
}

// TestProtected checks that a protected connection has neither CRCs nor Markers nor a record,
// whatever the devices request from others, and that a device may reject unprotected ones.
func TestProtected(t *testing.T) {
	want := Config{CRC: mpa.CRCOn, Markers: true, Record: 1 << 20}
	c, err := connectDevices(t, want, want)
	require.NoError(t, err)
	assert.True(t, c.Params().CRC && c.Params().SendMarkers)
	assert.IsType(t, new(net.TCPConn), c.NetConn())

	protected := want
	protected.Secure, protected.OnlySecure = fakeSecure, true
	c, err = connectDevices(t, protected, protected)
	require.NoError(t, err)
	assert.False(t, c.Params().CRC || c.Params().SendMarkers || c.Params().RecvMarkers)
	assert.IsType(t, fakeTLSConn{}, c.NetConn())
	assert.ErrorIs(t, c.WriteRecord(nil), errNoRecord)

	strict := Config{Secure: noSecure, OnlySecure: true}
	_, err = connectDevices(t, Config{}, strict)
	_, rejected := errors.AsType[*RejectedError](err)
	assert.True(t, rejected, err)

	broken := errors.New("broken")
	failing := Config{Secure: func(_ context.Context, nc net.Conn) (net.Conn, error) {
		nc.Close()
		return nil, broken
	}}
	_, err = connectDevices(t, failing, Config{})
	assert.ErrorIs(t, err, broken)
	_, err = connectDevices(t, Config{}, failing)
	assert.Error(t, err)
}

// TestOnlySecureRevision1 checks that an initiator without encryption, which only speaks MPA
// revision 1 or falls back to it, is rejected in that revision, and not by a silent end: after that
// it would try again without encryption.
func TestOnlySecureRevision1(t *testing.T) {
	l, err := Open(Config{Secure: noSecure, OnlySecure: true}).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for _, rev := range []uint8{mpa.Rev1, mpa.Rev2} {
		nc, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		_, err = nc.Write(append([]byte("MPA ID Req Frame"), 0x40, rev, 0, 0))
		require.NoError(t, err)
		answer, err := io.ReadAll(nc)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(answer), 20, "revision %d", rev)
		assert.Equal(t, "MPA ID Rep Frame", string(answer[:16]))
		assert.NotZero(t, answer[16]&0x20, "R, the reject bit")
		assert.Equal(t, rev, answer[17])
		nc.Close()
	}
}
