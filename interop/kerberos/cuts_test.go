//go:build interop

package kerberos

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/gss/krb5"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A relay passes connections on to a server, until cut resets them all.
type relay struct {
	addr string

	mu    sync.Mutex
	open  map[net.Conn]bool // to both ends
	conns int
}

// newRelay starts a relay that stops when the test ends.
func newRelay(t *testing.T, server string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{addr: l.Addr().String(), open: make(map[net.Conn]bool)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			r.mu.Lock()
			r.open[client], r.open[server] = true, true
			r.conns++
			r.mu.Unlock()
			for to, from := range map[net.Conn]net.Conn{client: server, server: client} {
				all.Go(func() {
					_, _ = io.Copy(to, from)
					to.Close()
					from.Close()
					r.mu.Lock()
					defer r.mu.Unlock()
					delete(r.open, to)
				})
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.cut()
		all.Wait()
	})
	return r
}

// cut resets all connections, and returns how many have been made.
func (r *relay) cut() (made int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	return r.conns
}

// TestKerberosCuts cuts the connection every 200 ms, for 5 seconds, or for two minutes
// with INTEROP_SOAK, while users make directories over RDMA with each flavor. Each MKDIR
// is executed once and answered: executed again it would say that the directory exists.
// The daemon drops none for its sequence number.
func TestKerberosCuts(t *testing.T) {
	cuts := 25
	if os.Getenv("INTEROP_SOAK") != "" {
		cuts = 600
	}
	h := newHost(newRealm(t, enctypes[krb5.AES256SHA1]))
	h.give("alice", 41001)
	h.give("bob", 41002)
	d := newDaemon(t, h.realm, "krb5p:krb5i:krb5")
	relay := newRelay(t, d.RDMA)
	u := h.newUsers(relay.addr)

	over := make(chan bool)
	made := make([]int, 12)
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() {
			c := u.client(rpcmsg.AuthKrb5+uint32(i%3), 41001+uint32(i%2))
			for {
				select {
				case <-over:
					return
				default:
				}
				dir := nfs3.DirOpArgs{Dir: u.root, Name: fmt.Appendf(nil, "%d %d", i, made[i])}
				if _, err := c.Mkdir(t.Context(), &nfs3.MkdirArgs{Where: dir}); !assert.NoError(t, err, "%s", dir.Name) {
					return
				}
				made[i]++
			}
		})
	}
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for range cuts {
		<-every.C
		relay.cut()
	}
	close(over)
	all.Wait()
	sum := 0
	for i, n := range made {
		assert.Positive(t, n)
		sum += n
		for j := range n {
			assert.DirExists(t, filepath.Join(d.dir, fmt.Sprintf("%d %d", i, j)))
		}
	}
	names, err := os.ReadDir(d.dir)
	require.NoError(t, err)
	assert.Len(t, names, sum)
	conns := relay.cut()
	assert.Greater(t, conns, cuts/2, "connections")
	status := d.kerberos(t)
	assert.Zero(t, status.Dropped, "sequence numbers below the window, or seen")
	assert.Zero(t, status.BadVerifiers)
	t.Logf("%d directories, %d connections, %d contexts", sum, conns, status.Made)
}
