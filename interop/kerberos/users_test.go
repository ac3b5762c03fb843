//go:build interop

package kerberos

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// hostUsers are users of a host, who call a server over RDMA.
type hostUsers struct {
	callers *tickets.Callers
	root    nfs3.FH
}

func (h *clientHost) newUsers(addr string) *hostUsers {
	h.Helper()
	line, err := rpcrdma.Dial(h.Context(), iwarp.Open(iwarp.Config{}), addr, rpcrdma.ClientConfig{})
	require.NoError(h, err)
	h.Cleanup(func() { line.Close() })
	root, _, err := nfsclient.NewMount(line, &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}).MntFlavors(h.Context(), "/x")
	require.NoError(h, err)
	return &hostUsers{h.newCallers(line, nfs3.Program, nfs3.Version), root}
}

// clientFor returns a user's client.
func (u *hostUsers) clientFor(flavor, uid uint32) *nfsclient.Client {
	return nfsclient.New(u.callers, nfsclient.Config{Cred: &rpcmsg.Cred{Flavor: flavor, UID: uid, GID: 100}})
}

// TestKerberosManyUsers has 100 users, or 1,000 with INTEROP_SOAK, make their first calls
// at once, each with a principal of their own.
func TestKerberosManyUsers(t *testing.T) {
	const first = 42000
	count := 100
	if os.Getenv("INTEROP_SOAK") != "" {
		count = 1000
	}
	h := newHost(newRealm(t, enctypes[krb5.AES256SHA1]))
	var orders strings.Builder
	for i := range count {
		fmt.Fprintf(&orders, "addprinc -randkey user%d\nktadd -k %s -norandkey user%d\n", i, h.kdc.Keytab("users"), i)
	}
	require.NoError(t, h.kdc.runCommand(orders.String(), "/usr/sbin/kadmin.local", "-r", Realm))
	for i := range count {
		cache := h.cacheName(first + i)
		require.NoError(t, h.kdc.runCommand("", "kinit", "-k", "-t", h.kdc.Keytab("users"), "-c", cache, fmt.Sprint("user", i)))
		require.NoError(t, os.Chown(cache, first+i, 100))
	}
	d := newDaemon(t, h.testRealm, "krb5i")
	u := h.newUsers(d.RDMA)
	began := time.Now()
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			_, err := u.clientFor(rpcmsg.AuthKrb5i, uint32(first+i)).GetAttr(t.Context(), u.root)
			assert.NoError(t, err)
		})
	}
	all.Wait()
	t.Logf("first calls of %d users: %v", count, time.Since(began))
	status := d.contextStatus(t)
	assert.Equal(t, []int{count, count}, []int{status.Contexts, status.Made})
	names := make(map[string]bool)
	for _, c := range status.List {
		names[c.Principal] = true
	}
	assert.Len(t, names, count, "principals")
}

// TestKerberosKeysUnderLoad has ktadd change the service's key while users call and make
// contexts with tickets of the old one: no user notices, and new tickets are good at
// once. Once the old keys are removed, an old ticket makes no context any more, and the
// error says what helps. Contexts that were made with it go on.
func TestKerberosKeysUnderLoad(t *testing.T) {
	const old, later = 43000, 60000
	h := newHost(newRealm(t, enctypes[krb5.AES256SHA1]))
	h.getTicket("alice", 41001)
	h.getTicket("alice", old)
	require.NoError(t, h.kdc.runCommand("", "kvno", "-q", "-c", h.cacheName(old), "nfs/server.test.example"))
	ticket, err := os.ReadFile(h.cacheName(old))
	require.NoError(t, err)
	var next atomic.Int32
	next.Store(old)
	another := func() uint32 { // another user with the old ticket
		uid := int(next.Add(1))
		require.NoError(t, os.WriteFile(h.cacheName(uid), ticket, 0o600))
		require.NoError(t, os.Chown(h.cacheName(uid), uid, 100))
		return uint32(uid)
	}
	d := newDaemon(t, h.testRealm, "krb5i")
	u := h.newUsers(d.RDMA)
	call := func(uid uint32) error {
		_, err := u.clientFor(rpcmsg.AuthKrb5i, uid).GetAttr(t.Context(), u.root)
		return err
	}
	over := make(chan bool)
	var all sync.WaitGroup
	var calls, contexts atomic.Int64
	load := func(count *atomic.Int64, user func() uint32) {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if !assert.NoError(t, call(user())) {
					return
				}
				count.Add(1)
			}
		})
	}
	load(&calls, func() uint32 { return 41001 })
	load(&contexts, another)
	reach := func(count *atomic.Int64) { // five more
		for until, want := time.Now().Add(time.Minute), count.Load()+5; count.Load() < want; time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(until) && !t.Failed())
		}
	}
	reach(&contexts)
	require.NoError(t, h.kdc.runAdmin("ktadd -k %s nfs/server.test.example", h.kdc.Keytab("acceptor")))
	h.getTicket("alice", later)
	assert.NoError(t, call(later), "a ticket of the new key")
	reach(&contexts)
	reach(&calls)
	close(over)
	all.Wait()
	t.Logf("%d calls, %d contexts", calls.Load(), contexts.Load())
	assert.Empty(t, d.contextStatus(t).Refused)

	require.NoError(t, h.kdc.runAdmin("ktremove -k %s nfs/server.test.example old", h.kdc.Keytab("acceptor")))
	d.Signal(unix.SIGHUP)
	var refused uint32
	require.Eventually(t, func() bool { refused = another(); err = call(refused); return err != nil }, 20*time.Second, 10*time.Millisecond)
	assert.ErrorContains(t, err, "the server's keytab does not have the key of your ticket: run kinit again")
	assert.Contains(t, d.daemonLog(t), "a client has a ticket for nfs/server.test.example with key version 1; the keytab has 2")
	assert.NoError(t, call(41001), "a context of the old key")
	h.getTicket("alice", int(refused))
	require.Eventually(t, func() bool { return call(refused) == nil }, 20*time.Second, 100*time.Millisecond, "a failure is kept for a second")
}
