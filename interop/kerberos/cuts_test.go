//go:build interop

package kerberos

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

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
	h.getTicket("alice", 41001)
	h.getTicket("bob", 41002)
	d := newDaemon(t, h.testRealm, "krb5p:krb5i:krb5")
	relay := interop.NewRelay(t, d.RDMA, nil)
	u := h.newUsers(relay.Addr)

	over := make(chan bool)
	made := make([]int, 12)
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() {
			c := u.clientFor(rpcmsg.AuthKrb5+uint32(i%3), 41001+uint32(i%2))
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
		relay.Cut()
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
	conns := relay.Cut()
	assert.Greater(t, conns, cuts/2, "connections")
	status := d.contextStatus(t)
	assert.Zero(t, status.Dropped, "sequence numbers below the window, or seen")
	assert.Zero(t, status.BadVerifiers)
	t.Logf("%d directories, %d connections, %d contexts", sum, conns, status.Made)
}
