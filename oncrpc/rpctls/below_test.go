package rpctls

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBelowMPA checks the handshake without a probe: the first byte decides, and both
// ends demand the name of what is inside.
func TestBelowMPA(t *testing.T) {
	root := newAuthority(t, "root")
	r := newRig(t, ServerConfig{Files: filesOf(root.Issue(nil), root)})
	c := newTestClient(t, ClientConfig{Files: filesOf(root.Issue(nil), root), Mutual: true})
	begin := func(far net.Conn) <-chan handshakeEnd {
		done := make(chan handshakeEnd, 1)
		go func() {
			nc, err := r.server.Begin(context.Background(), far)
			conn, _ := nc.(*Conn)
			done <- handshakeEnd{conn, err}
		}()
		return done
	}
	near, far := r.dialBoth()
	done := begin(far)
	conn, err := c.Begin(t.Context(), near)
	require.NoError(t, err)
	server := <-done
	require.NoError(t, server.err)
	assert.Equal(t, "nfsrdma-mpa/1", server.conn.Security().Protocol)
	assert.Equal(t, "mtls", server.conn.Security().String())
	server.conn.Close()
	conn.Close()

	near, far = r.dialBoth()
	done = begin(far)
	_, err = near.Write([]byte("MPA ID Req Frame"))
	require.NoError(t, err)
	plain := <-done
	assert.NoError(t, plain.err)
	assert.Nil(t, plain.conn)
	all := make([]byte, 16)
	_, err = far.Read(all)
	require.NoError(t, err)
	assert.Equal(t, "MPA ID Req Frame", string(all))

	for _, protocols := range [][]string{{protocolRPC}, nil} {
		near, far = r.dialBoth()
		done = begin(far)
		go func() {
			_ = tls.Client(near, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols, Time: testNow}).Handshake()
		}()
		assert.Equal(t, "protocol", wordOf((<-done).err), protocols)
		near.Close()
	}

	near, far = r.dialBoth()
	var other sync.WaitGroup
	other.Go(func() {
		if s, err := r.server.Secure(context.Background(), far); err == nil {
			s.Close()
		}
	})
	_, err = c.SecureMPA(t.Context(), near)
	assert.Equal(t, "protocol", wordOf(err))
	other.Wait()

	near, far = r.dialBoth()
	done = begin(far)
	near.Close()
	assert.Error(t, (<-done).err)

	near, far = r.dialBoth()
	far.Close()
	_, err = c.SecureMPA(t.Context(), near)
	assert.Equal(t, "no_tls", wordOf(err))
}
