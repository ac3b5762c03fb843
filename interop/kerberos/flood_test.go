//go:build interop

package kerberos

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// initRecord is a call that makes a context (RFC 2203, Section 5.2), as TCP carries it.
func initRecord(token []byte) []byte {
	var b []byte
	for _, v := range []uint32{0, 0, rpcmsg.MsgCall, rpcmsg.Version, nfs3.Program, nfs3.Version, 0, rpcmsg.AuthGSS, 20, 1, 1, 0, 1, 0, rpcmsg.AuthNone, 0} {
		b = xdr.AppendUint32(b, v)
	}
	b = xdr.AppendOpaque(b, token)
	binary.BigEndian.PutUint32(b, 1<<31|uint32(len(b)-4))
	return b
}

// residentMemory is the memory of a daemon in bytes.
func (d *kerberosDaemon) residentMemory(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.PID()))
	require.NoError(t, err)
	var size, pages int
	_, err = fmt.Sscan(string(text), &size, &pages)
	require.NoError(t, err)
	return pages * os.Getpagesize()
}

// TestKerberosFlood has one host send thousands of tokens that make a context, of which
// most are changed, or were sent before, while a user of another host calls. All calls
// are answered, all bad tokens are refused, and neither the daemon's memory nor its log
// grows with them.
func TestKerberosFlood(t *testing.T) {
	const (
		lines, good, bad = 8, 10, 200 // tokens on each line
		grown            = 32 << 20   // bytes
	)
	h := newHost(newRealm(t, enctypes[krb5.AES256SHA1]))
	h.getTicket("alice", 41001)
	d := newDaemon(t, h.testRealm, "krb5i")
	u := h.newUsers(d.RDMA)
	alice := u.clientFor(rpcmsg.AuthKrb5i, 41001)
	call := func() time.Duration {
		began := time.Now()
		_, err := alice.GetAttr(t.Context(), u.root)
		require.NoError(t, err)
		return time.Since(began)
	}
	p99 := func(times []time.Duration) (median, worst time.Duration) {
		slices.Sort(times)
		return times[len(times)/2], times[len(times)*99/100]
	}
	var quiet, flooded []time.Duration
	for range 1000 {
		quiet = append(quiet, call())
	}

	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	flood := func() {
		var records [lines][]byte
		for i := range records {
			for range good {
				token := h.initiateContext(allFlags...)
				records[i] = append(records[i], initRecord(token)...)
				for j := range bad / good {
					changed := bytes.Clone(token)
					if j > 0 { // the first is only repeated
						changed[len(changed)-j] ^= 1
					}
					records[i] = append(records[i], initRecord(changed)...)
				}
			}
		}
		var all sync.WaitGroup
		for _, r := range records {
			c, err := from.Dial("tcp", d.TCP)
			require.NoError(t, err)
			all.Go(func() {
				_, err := c.Write(r)
				assert.NoError(t, err)
				assert.NoError(t, c.(*net.TCPConn).CloseWrite())
			})
			all.Go(func() {
				defer c.Close()
				_, err := io.Copy(io.Discard, c)
				assert.NoError(t, err)
			})
		}
		over := make(chan bool)
		go func() { all.Wait(); close(over) }()
		for {
			flooded = append(flooded, call())
			select {
			case <-over:
				return
			default:
			}
		}
	}
	flood()
	before := d.residentMemory(t)
	for range 3 {
		flood()
	}
	assert.Less(t, d.residentMemory(t)-before, grown)
	status := d.contextStatus(t)
	assert.Equal(t, 1+4*lines*good, status.Contexts)
	refused := 0
	for _, r := range status.Refused {
		assert.Contains(t, []string{"repeated", "forged"}, r.Reason)
		refused += r.Count
	}
	assert.Equal(t, 4*lines*bad, refused)
	assert.Less(t, strings.Count(d.daemonLog(t), "\n"), 100, "lines of the log")
	m1, w1 := p99(quiet)
	m2, w2 := p99(flooded)
	t.Logf("GETATTR: median %v, p99 %v; %d in the flood: median %v, p99 %v; %d bytes more", m1, w1, len(flooded), m2, w2, d.residentMemory(t)-before)
}
