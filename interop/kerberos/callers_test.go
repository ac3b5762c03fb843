//go:build interop

package kerberos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

type whoami struct{}

func (whoami) ServeRPC(context.Context, *oncrpc.Call, *oncrpc.Reply) error { return nil }

const testProg = 0x20000001 // from the range for local use

// serviceName returns a service's name, as a user has typed it.
func serviceName(name string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return name, nil }
}

// uids are the users of principals, which differ from those of the client's host.
var uids = map[string]uint32{"alice": 1001, "bob": 1002}

// serveProgram serves the test program and others over TCP with r's acceptor, and returns a
// line to them. The channel has the principals of calls.
func (r *testRealm) serveProgram(more ...func(*oncrpc.Mux)) (oncrpc.Caller, <-chan string) {
	r.Helper()
	seen := make(chan string, 100)
	quiet := slog.New(slog.DiscardHandler)
	mux := &oncrpc.Mux{Log: quiet}
	mux.Register(testProg, 1, whoami{})
	for _, register := range more {
		register(mux)
	}
	s := &oncrpc.Server{Log: quiet, MaxRecord: 4 << 20, Handler: rpcsec.NewServer(mux, rpcsec.ServerConfig{
		Acceptor: r.acceptor, Log: quiet,
		Map: func(_ context.Context, _ netip.Addr, p gss.Principal) (rpcsec.User, bool, error) {
			select {
			case seen <- strings.Join(p.Name, "/"):
			default: // the test does not look
			}
			uid, ok := uids[p.Name[0]]
			return rpcsec.User{UID: uid, GID: 100}, ok, nil
		},
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(r, err)
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(r, err)
	line := oncrpc.NewTCPClient(conn, oncrpc.ClientConfig{})
	r.Cleanup(func() {
		line.Close()
		assert.NoError(r, s.Shutdown(context.Background()))
		assert.NoError(r, <-served)
	})
	return line, seen
}

// TestCallers has calls of a machine made in contexts by its keytab, over TCP, with each
// flavor.
func TestCallers(t *testing.T) {
	helper, r := programPath(t, "nfsrdma-gss"), newRealm(t, enctypes[krb5.AES256SHA1])
	require.NoError(t, r.kdc.AddService("machine", "nfs/client.test.example"))
	line, seen := r.serveProgram()
	for _, flavor := range []uint32{rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p} {
		c := tickets.NewCallers(line, tickets.CallersConfig{
			Helper: tickets.NewHelper(tickets.Config{Program: helper, Keytab: r.kdc.Keytab("machine"), Host: "client.test.example", Env: r.kdc.environ()}),
			Prog:   testProg, Vers: 1, Service: serviceName(server),
		})
		for range 3 {
			x := oncrpc.Exchange{Prog: testProg, Vers: 1, Cred: rpcmsg.Cred{Flavor: flavor}}
			require.NoError(t, c.Call(t.Context(), &x))
			x.Release()
			assert.Equal(t, "nfs/client.test.example", <-seen)
		}
		c.Close(t.Context())
	}
}

// A clientHost is a client's: its users have caches in a directory.
type clientHost struct {
	*testRealm
	dir    string
	helper string
}

// newHost returns a host of a realm that has alice, and to which newHost adds bob.
func newHost(r *testRealm) *clientHost {
	r.Helper()
	require.NoError(r, r.kdc.runAdmin("addprinc -pw secret bob"))
	return hostOf(r)
}

// hostOf returns a host of a realm.
func hostOf(r *testRealm) *clientHost {
	r.Helper()
	h := &clientHost{testRealm: r, dir: r.TempDir(), helper: programPath(r.T, "nfsrdma-gss")}
	for _, of := range []string{filepath.Dir(h.dir), h.dir} {
		require.NoError(r, os.Chmod(of, 0o755)) // for all users
	}
	text, err := os.ReadFile(r.kdc.dir + "/krb5.conf")
	require.NoError(r, err)
	text = append(text, "[libdefaults]\n\tdefault_ccache_name = FILE:"+h.dir+"/krb5cc_%{uid}\n"...)
	require.NoError(r, os.WriteFile(h.dir+"/krb5.conf", text, 0o644))
	return h
}

// cacheName is the name of a user's cache, without its kind.
func (h *clientHost) cacheName(uid int) string { return fmt.Sprintf("%s/krb5cc_%d", h.dir, uid) }

// getTicket gets a ticket for a user.
func (h *clientHost) getTicket(name string, uid int, options ...string) {
	h.Helper()
	require.NoError(h, h.kdc.runCommand("secret\n", "kinit", append(options, "-c", h.cacheName(uid), name)...))
	require.NoError(h, os.Chown(h.cacheName(uid), uid, 100))
}

// newCallers returns the Callers of a mount by root.
func (h *clientHost) newCallers(line oncrpc.Caller, prog, vers uint32) *tickets.Callers {
	return h.callersOf(server, line, prog, vers)
}

// callersOf returns the Callers of a mount of another server.
func (h *clientHost) callersOf(service string, line oncrpc.Caller, prog, vers uint32) *tickets.Callers {
	c := tickets.NewCallers(line, tickets.CallersConfig{
		Helper: tickets.NewHelper(tickets.Config{Program: h.helper, Env: []string{"KRB5_CONFIG=" + h.dir + "/krb5.conf"}}),
		Prog:   prog, Vers: vers, Service: serviceName(service),
	})
	h.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// TestCallersOfUsers has two users make calls, each by the ticket in that user's own
// cache. A user without a ticket gets EACCES, with an expired one EKEYEXPIRED, and the
// context when there is a ticket.
func TestCallersOfUsers(t *testing.T) {
	h := newHost(newRealm(t, enctypes[krb5.AES256SHA1]))
	h.getTicket("alice", 41001)
	h.getTicket("bob", 41002)
	line, seen := h.serveProgram()
	c := h.newCallers(line, testProg, 1)
	call := func(uid uint32) error {
		x := oncrpc.Exchange{Prog: testProg, Vers: 1, Proc: 1, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthKrb5p, UID: uid, GID: 100}}
		err := c.Call(t.Context(), &x)
		if err == nil {
			x.Release()
		}
		return err
	}
	for range 2 {
		require.NoError(t, call(41001))
		assert.Equal(t, "alice", <-seen)
		require.NoError(t, call(41002))
		assert.Equal(t, "bob", <-seen)
	}
	err := call(41003)
	assert.EqualError(t, err, "user 41003: no ticket (FILE:"+h.cacheName(41003)+"): run kinit")
	assert.ErrorIs(t, err, syscall.EACCES)

	h.getTicket("bob", 41003, "-l", "1s")
	for until := time.Now().Add(30 * time.Second); !errors.Is(call(41003), syscall.EKEYEXPIRED); { // contexts end with their tickets
		require.True(t, time.Now().Before(until))
	}
	for len(seen) > 0 {
		<-seen
	}
	h.getTicket("alice", 41003)
	for until := time.Now().Add(30 * time.Second); call(41003) != nil; { // a failure is kept for a second
		require.True(t, time.Now().Before(until))
	}
	assert.Equal(t, "alice", <-seen)
}

// TestNFSByUsers has two users use an export with Kerberos, by nfsclient. Each sees
// the files that the user may see at the server, where root's calls for the mount
// itself need no ticket.
func TestNFSByUsers(t *testing.T) {
	for _, flavor := range []exports.Flavor{exports.FlavorKrb5, exports.FlavorKrb5i, exports.FlavorKrb5p} {
		t.Run(flavor.String(), func(t *testing.T) {
			h := newHost(newRealm(t, enctypes[krb5.AES256SHA1]))
			h.getTicket("alice", 41001)
			h.getTicket("bob", 41002)
			server, err := nfsserver.New(nfsserver.Config{Exports: []nfsserver.Export{{
				Path: "/x", FS: mem.New(mem.Options{}),
				Clients: exports.Everyone(exports.Options{Insecure: true, Sec: exports.Secure(exports.Rights{}, flavor)}),
			}}})
			require.NoError(t, err)
			line, _ := h.serveProgram(server.Register)
			sys := rpcmsg.Cred{Flavor: rpcmsg.AuthSys}
			root, flavors, err := nfsclient.NewMount(line, &sys).MntFlavors(t.Context(), "/x")
			require.NoError(t, err)
			require.Equal(t, []uint32{uint32(flavor)}, flavors)
			of := func(uid uint32) *nfsclient.FS {
				cred := rpcmsg.Cred{Flavor: uint32(flavor), UID: uid, GID: 100}
				fs, err := nfsclient.New(h.newCallers(line, nfs3.Program, nfs3.Version), nfsclient.Config{Cred: &cred}).FS(t.Context(), root, "/x")
				require.NoError(t, err, "FSINFO needs no ticket")
				return fs
			}
			alice, bob, nobody := of(41001), of(41002), of(41003)
			data := bytes.Repeat([]byte("a secret of alice"), 10000)
			f, err := alice.Create(t.Context(), "secret", 0o600)
			require.NoError(t, err)
			_, err = f.WriteAt(t.Context(), data, 0)
			require.NoError(t, err)
			got := make([]byte, len(data))
			_, err = f.ReadAt(t.Context(), got, 0)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(data, got))
			n, err := bob.Lstat(t.Context(), "secret")
			require.NoError(t, err)
			assert.EqualValues(t, uids["alice"], n.Attr.UID, "the server's user")
			f, err = bob.Open(t.Context(), "secret")
			require.NoError(t, err)
			_, err = f.ReadAt(t.Context(), got[:1], 0)
			assert.ErrorIs(t, err, syscall.EACCES)
			_, err = nobody.Lstat(t.Context(), "secret")
			assert.ErrorIs(t, err, syscall.EACCES)
			assert.ErrorContains(t, err, "run kinit")
		})
	}
}
