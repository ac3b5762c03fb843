package nfsrdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

var silent = slog.New(slog.DiscardHandler)

// checkLeaks checks at the end of the test that no goroutine or buffer is left.
func checkLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
			time.Sleep(time.Millisecond) // goroutines may be about to end
		}
		assert.LessOrEqual(t, runtime.NumGoroutine(), before, "goroutines")
		assert.Zero(t, buf.Default.Out(), "unreturned buffers")
	})
}

// A testServer is a Server and its addresses.
type testServer struct {
	*Server
	rdma, tcp string
}

// startServer starts a Server, which serves until the end of the test.
func startServer(t *testing.T, cfg ServerConfig) testServer {
	t.Helper()
	checkLeaks(t)
	return startAnotherServer(t, cfg)
}

// startAnotherServer starts a Server without a check for leaks, which the test's first one
// makes.
func startAnotherServer(t *testing.T, cfg ServerConfig) testServer {
	t.Helper()
	cfg.Log = silent
	s, err := NewServer(cfg)
	require.NoError(t, err)
	r := testServer{Server: s}
	served := make(chan error, 2)
	for _, way := range []struct {
		addr  *string
		serve func(net.Listener) error
	}{{&r.rdma, s.ServeRDMA}, {&r.tcp, s.ServeTCP}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		*way.addr = l.Addr().String()
		go func() { served <- way.serve(l) }()
	}
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.NoError(t, <-served)
		assert.NoError(t, <-served)
	})
	return r
}

// dialServer returns a Client, which is closed at the end of the test.
func (r testServer) dialServer(t *testing.T, cfg ClientConfig) *Client {
	t.Helper()
	cfg.Log = silent
	c, err := Dial(t.Context(), r.rdma, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// readText returns the contents of a file.
func readText(t *testing.T, fs *nfsclient.FS, name string) string {
	t.Helper()
	f, err := fs.Open(t.Context(), name)
	require.NoError(t, err)
	var b bytes.Buffer
	_, err = f.CopyTo(t.Context(), &b, 0)
	require.NoError(t, err)
	return b.String()
}

// memDirectory returns a memory file system with one file.
func memDirectory(t *testing.T, name, content string) vfs.FS {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	fs, err := posix.Open(dir, posix.Options{Log: silent})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, fs.Close()) })
	return fs
}

// TestTwoExports checks two exports over RDMA, with several connections, and
// over TCP.
func TestTwoExports(t *testing.T) {
	a, b := memDirectory(t, "a", "of a"), memDirectory(t, "b", "of b")
	r := startServer(t, ServerConfig{Exports: []nfsserver.Export{{Path: "/a", FS: a}, {Path: "/b", FS: b}}})
	c := r.dialServer(t, ClientConfig{Connections: 3})
	assert.Len(t, c.Conns(), 3)
	list, err := c.Exports(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 2)
	for _, name := range []string{"a", "b"} {
		fs, err := c.Mount(t.Context(), "/"+name)
		require.NoError(t, err)
		assert.Equal(t, "of "+name, readText(t, fs, name))
	}

	conn, err := oncrpc.DialTCP(t.Context(), r.tcp, oncrpc.ClientConfig{})
	require.NoError(t, err)
	defer conn.Close()
	root, err := nfsclient.NewMount(conn, nil).Mnt(t.Context(), "/b")
	require.NoError(t, err)
	fs, err := nfsclient.New(conn, nfsclient.Config{}).FS(t.Context(), root, "/b")
	require.NoError(t, err)
	assert.Equal(t, "of b", readText(t, fs, "b"))
}

// A rejectingAcceptor is an acceptor of security contexts that must not be called.
type rejectingAcceptor struct{ t *testing.T }

func (r rejectingAcceptor) Accept(context.Context, []byte, []byte) (gss.Accepted, error) {
	r.t.Error("the acceptor is asked")
	return gss.Accepted{}, errors.New("refused")
}

// TestNoContextsOverUDP checks that no security context is created over UDP: with forged
// addresses, an attacker could exhaust the tokens that are examined concurrently.
func TestNoContextsOverUDP(t *testing.T) {
	r := startServer(t, ServerConfig{
		Exports: []nfsserver.Export{{Path: "/a", FS: mem.New(mem.Options{})}},
		Security: &rpcsec.ServerConfig{
			Acceptor: rejectingAcceptor{t},
			Map: func(context.Context, netip.Addr, gss.Principal) (rpcsec.User, bool, error) {
				return rpcsec.User{}, false, nil
			},
		},
	})
	p, err := oncrpc.ListenPackets("127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- r.ServeUDP(p) }()
	c, err := net.Dial("udp", p.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	var init []byte
	for _, v := range []uint32{7, 0, 2, nlm4.Program, nlm4.Version, 0, rpcmsg.AuthGSS, 20, 1, 1, 0, 0, 0, 0, 0, 4, 0} {
		init = binary.BigEndian.AppendUint32(init, v)
	}
	_, err = c.Write(init)
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	reply := make([]byte, oncrpc.MaxPacket)
	n, err := c.Read(reply)
	require.NoError(t, err)
	assert.Equal(t, rpcmsg.AppendAuthError(nil, 7, rpcmsg.AuthBadCred), reply[:n])
	require.NoError(t, p.Shutdown(t.Context()))
	assert.NoError(t, <-served)
}

// TestErrors checks that errors name the object and a remedy.
func TestErrors(t *testing.T) {
	r := startServer(t, ServerConfig{Exports: []nfsserver.Export{{Path: "/here", FS: mem.New(mem.Options{})}}})
	c := r.dialServer(t, ClientConfig{})
	_, err := c.Mount(t.Context(), "/elsewhere")
	var refused *nfsclient.MountError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, mount3.ErrNoEnt, refused.Status)
	assert.ErrorContains(t, err, "127.0.0.1:/elsewhere")
	assert.ErrorContains(t, err, `it exports "/here"`)

	_, err = Dial(t.Context(), "", ClientConfig{})
	assert.ErrorContains(t, err, "HOST:PORT")
	_, err = Dial(t.Context(), "a:b:c", ClientConfig{})
	assert.ErrorContains(t, err, "[IPv6]:PORT")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	_, err = Dial(t.Context(), closed.Addr().String(), ClientConfig{Log: silent})
	assert.ErrorContains(t, err, "connecting to "+closed.Addr().String())

	_, err = NewServer(ServerConfig{Exports: []nfsserver.Export{{Path: "relative", FS: mem.New(mem.Options{})}}, Log: silent})
	assert.ErrorContains(t, err, `"relative"`)
	_, err = NewServer(ServerConfig{Inline: -1, Log: silent})
	assert.ErrorContains(t, err, "inline size -1")
	_, err = NewServer(ServerConfig{Credits: 1 << 30, Log: silent})
	assert.ErrorContains(t, err, "credits")
	for _, minor := range []uint32{3, 99} {
		_, err = NewServer(ServerConfig{Minors: []uint32{minor}, Log: silent})
		assert.ErrorContains(t, err, "minor version")
	}
	s, err := NewServer(ServerConfig{Log: silent})
	require.NoError(t, err)
	defer s.Close()
	assert.ErrorContains(t, s.ListenAndServe("127.0.0.1:0", r.tcp), r.tcp, "a port that is in use")
}

// A slowFS is a file system whose GETATTRs wait.
type slowFS struct {
	vfs.FS
	begun, proceed chan struct{}
}

func (f *slowFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	select {
	case f.begun <- struct{}{}:
		<-f.proceed
	default:
	}
	return f.FS.GetAttr(ctx, c, h)
}

// TestShutdown checks that Shutdown completes a pending call, and that it aborts calls that
// take too long, for which Close waits.
func TestShutdown(t *testing.T) {
	for _, patient := range []bool{true, false} {
		t.Run(map[bool]string{true: "patient", false: "impatient"}[patient], func(t *testing.T) {
			slow := &slowFS{FS: mem.New(mem.Options{}), begun: make(chan struct{}), proceed: make(chan struct{})}
			r := startServer(t, ServerConfig{Exports: []nfsserver.Export{{Path: "/x", FS: slow}}})
			proceed := sync.OnceFunc(func() { close(slow.proceed) })
			t.Cleanup(proceed) // runs before the Server's Close
			c := r.dialServer(t, ClientConfig{GiveUp: time.Millisecond})
			fs, err := c.Mount(t.Context(), "/x")
			require.NoError(t, err)
			answered := make(chan error, 1)
			go func() {
				var err error
				for err == nil { // until the server is closed
					_, err = c.NFS().GetAttr(context.Background(), fs.Root())
					answered <- err
				}
			}()
			var under error
			for waiting := true; waiting; {
				select {
				case <-slow.begun:
					waiting = false
				case under = <-answered:
					require.NoError(t, under)
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			down := make(chan error, 1)
			go func() { down <- r.Shutdown(ctx) }()
			if patient {
				proceed()
				assert.NoError(t, <-answered, "the pending call")
				assert.NoError(t, <-down)
				for err := range answered {
					if err != nil {
						return
					}
				}
			}
			cancel()
			assert.ErrorIs(t, <-down, context.Canceled)
			closed := make(chan struct{})
			go func() {
				assert.NoError(t, r.Close())
				close(closed)
			}()
			select {
			case <-closed:
				t.Error("Close does not wait for the file system")
			case <-time.After(10 * time.Millisecond):
			}
			proceed()
			<-closed
			for err := range answered {
				if err != nil {
					return
				}
			}
		})
	}
}

// TestTogether checks that the failure of one transport ends the others, even if a file
// system hangs.
func TestTogether(t *testing.T) {
	checkLeaks(t)
	slow := &slowFS{FS: mem.New(mem.Options{}), begun: make(chan struct{}), proceed: make(chan struct{})}
	s, err := NewServer(ServerConfig{Exports: []nfsserver.Export{{Path: "/x", FS: slow}}, Log: silent})
	require.NoError(t, err)
	t.Cleanup(func() {
		close(slow.proceed)
		assert.NoError(t, s.Close())
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	broken := errors.New("no more connections")
	fail, served := make(chan error), make(chan error, 1)
	go func() {
		served <- s.serveTogether(func() error { return s.ServeRDMA(l) }, func() error { return <-fail })
	}()
	mounting := make(chan struct{})
	go func() {
		defer close(mounting)
		c, err := Dial(t.Context(), l.Addr().String(), ClientConfig{GiveUp: time.Millisecond, Log: silent})
		if assert.NoError(t, err) {
			_, err := c.Mount(t.Context(), "/x")
			assert.Error(t, err)
			assert.NoError(t, c.Close())
		}
	}()
	<-slow.begun
	fail <- broken
	select {
	case err := <-served:
		assert.ErrorIs(t, err, broken)
	case <-time.After(20 * time.Second):
		t.Error("a call that hangs keeps ListenAndServe")
	}
	<-mounting
}

// TestParsesStream checks that a client of this project gets FPDUs of any
// length, even with CRCs and Markers.
func TestParsesStream(t *testing.T) {
	var block cmpriv.Extension
	message := cmpriv.Message{SendSize: 4096, RecvSize: 4096}.AppendTo(nil)
	frame := mpa.Frame{CRC: true, Markers: true, Rev: 2, HasEnhanced: true, PrivateData: message}
	own, bare := deviceConfig(iwarp.Config{}, false), deviceConfig(iwarp.Config{}, true)
	assert.False(t, own.LongFPDUs(frame), "a card")
	frame.PrivateData = block.AppendTo(message)
	assert.True(t, own.LongFPDUs(frame))
	assert.False(t, own.ShortFPDUs)
	assert.True(t, bare.ShortFPDUs)
	assert.True(t, own.LongFPDUs(mpa.Frame{Rev: 2, HasEnhanced: true, PrivateData: message}), "siw")
}

// TestVersion4 checks that the state of version 4 is swept until the end, and that two
// servers have different identities.
func TestVersion4(t *testing.T) {
	r := startServer(t, ServerConfig{})
	assert.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("nfs4server.(*Server).Sweep("))
	}, 20*time.Second, time.Millisecond)
	require.NoError(t, r.Close())

	a, b := [32]byte{1}, [32]byte{2}
	assert.Equal(t, serverID(a), serverID(a))
	assert.NotEqual(t, serverID(a), serverID(b))
	assert.NotEqual(t, serverID([32]byte{}), serverID([32]byte{}), "without a key")
}
