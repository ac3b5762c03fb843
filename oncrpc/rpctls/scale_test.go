package rpctls

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
)

// TestReplacedUnderLoad checks that 64 clients lose no call, and can come again, while
// certificates, authorities and revocation lists are replaced, and that all of their
// connections end once their authority is taken away.
func TestReplacedUnderLoad(t *testing.T) {
	root, other := newAuthority(t, "root"), newAuthority(t, "other")
	own := root.Issue(nil)
	dir := filepath.Dir(own.Cert)
	ca := certtest.Write(t, dir, "ca.pem", certtest.Encode(root.Cert))
	crl := certtest.Write(t, dir, "crl.pem", root.Revoke(now.Add(time.Hour)))
	d := newDaemon(t, ServerConfig{Files: Files{Cert: own.Cert, Key: own.Key, CA: ca, CRL: crl}})
	c := newTestClient(t, ClientConfig{Files: filesOf(root.Issue(nil), root), Mutual: true})
	const clients = 64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var calling sync.WaitGroup
	var calls atomic.Int64
	var conns []*Conn
	for range clients {
		conn, err := c.Secure(t.Context(), d.dialPlain(), testProg, 1)
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Time{})) // connect's is for one exchange
		conns = append(conns, conn)
		line := newCaller(t, conn)
		calling.Go(func() {
			for ctx.Err() == nil {
				x := newExchange(procEcho, make([]byte, 20_000))
				inTime, cancel := context.WithTimeout(context.Background(), time.Minute)
				err := line.Call(inTime, x)
				cancel()
				if !assert.NoError(t, err) {
					return
				}
				x.Release()
				calls.Add(1)
			}
		})
	}
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return b
	}
	for round := range 6 {
		next := root.Issue(nil)
		certtest.Write(t, dir, "key.pem", read(next.Key))
		certtest.Write(t, dir, "cert.pem", read(next.Cert))
		certtest.Write(t, dir, "ca.pem", append(certtest.Encode(other.Cert), certtest.Encode(root.Cert)...))
		certtest.Write(t, dir, "crl.pem", root.Revoke(now.Add(time.Duration(round+2)*time.Hour), root.Issue(nil).Leaf))
		require.NoError(t, d.server.Reload())
		before := calls.Load()
		conn, err := c.Secure(t.Context(), d.dialPlain(), testProg, 1)
		require.NoError(t, err)
		assert.Equal(t, next.Leaf.SerialNumber.Text(16), conn.Security().Serial)
		conn.Close()
		require.Eventually(t, func() bool { return calls.Load() > before+clients }, time.Minute, time.Millisecond)
	}
	stop()
	calling.Wait()
	assert.Zero(t, d.server.Stats().Cut)

	certtest.Write(t, dir, "ca.pem", certtest.Encode(other.Cert))
	require.NoError(t, os.Remove(crl))
	certtest.Write(t, dir, "crl.pem", other.Revoke(now.Add(time.Hour)))
	require.NoError(t, d.server.Reload())
	assert.EqualValues(t, clients, d.server.Stats().Cut)
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		_, err := conn.Read(make([]byte, 1))
		assert.Error(t, err)
	}
}

// TestManyStalls checks that thousands of clients that stop in the middle of a handshake
// use a bounded number of slots, keep no client out, and are all gone in the end.
func TestManyStalls(t *testing.T) {
	root := newAuthority(t, "root")
	d := newDaemon(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	probe := newRecord(AppendProbe(nil, testXID, testProg, 1))
	half := []byte{typeHandshake, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3} // the start of a ClientHello
	c := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
	const stalls, mounts = 5000, 10
	var all []net.Conn
	defer func() {
		for _, nc := range all {
			nc.Close()
		}
	}()
	for i := range stalls {
		nc, err := net.Dial("tcp", d.l.Addr().String())
		require.NoError(t, err)
		all = append(all, nc)
		if _, err = nc.Write(probe); err == nil && i%5 == 0 { // it may have been aborted for another already
			_, _ = nc.Write(half)
		}
		if i%(stalls/mounts) != stalls/mounts-1 {
			continue
		}
		assert.LessOrEqual(t, d.server.Stats().Handshakes, maxHandshakes)
		conn, err := c.Secure(t.Context(), d.dialPlain(), testProg, 1)
		require.NoError(t, err, "after %d stalls", i+1)
		line := newCaller(t, conn)
		callEcho(t, line, []byte("x"))
		line.Close()
	}
	for _, nc := range all {
		nc.Close()
	}
	require.Eventually(t, func() bool {
		st := d.server.Stats()
		return st.Handshakes == 0 && st.Open == 0 && d.rpc.Stats().Now == 0
	}, time.Minute, 10*time.Millisecond)
}
