package rpctls

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/hex"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keyUpdate returns the first record of a client: a KeyUpdate that asks for another
// (RFC 8446, Section 4.6.3).
func keyUpdate(t *testing.T, secret []byte) []byte {
	return newSealer(t, tls.TLS_AES_128_GCM_SHA256, secret).sealRecord(typeHandshake, []byte{messageKeyUpdate, 0, 0, 1, 1})
}

// TestCloseBehindKeyUpdate checks that a peer that asks for new keys and then takes nothing
// does not hold up Close.
func TestCloseBehindKeyUpdate(t *testing.T) {
	root := newAuthority(t, "root")
	r := newRig(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	near, far := r.dialBoth()
	var keys bytes.Buffer
	peer := tls.Client(near, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocolRPC}, Time: testNow, KeyLogWriter: &keys})
	shaken := make(chan error, 1)
	go func() { shaken <- peer.Handshake() }()
	secured, err := r.server.Secure(context.Background(), far)
	require.NoError(t, err)
	require.NoError(t, <-shaken)
	require.Equal(t, "TLS_AES_128_GCM_SHA256", secured.Security().Suite)
	_, line, _ := strings.Cut(keys.String(), "CLIENT_TRAFFIC_SECRET_0 ")
	secret, err := hex.DecodeString(strings.Fields(line)[1])
	require.NoError(t, err)

	c := secured.(*Conn)
	require.NoError(t, near.(*net.TCPConn).SetReadBuffer(4096))
	require.NoError(t, far.(*net.TCPConn).SetWriteBuffer(4096))
	done := make(chan error, 2)
	go func() {
		_, err := c.Write(make([]byte, 16<<20))
		done <- err
	}()
	for last := uint64(0); last < heldRecords || last != c.wire.out.records.Load(); time.Sleep(20 * time.Millisecond) {
		last = c.wire.out.records.Load() // until the writer waits
	}
	before := c.wire.in.records.Load()
	go func() {
		_, err := c.Read(make([]byte, 1))
		done <- err
	}()
	_, err = near.Write(keyUpdate(t, secret))
	require.NoError(t, err)
	for c.wire.in.records.Load() == before {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond) // so that TLS has the answer; otherwise this test finds nothing
	closed := make(chan struct{})
	go func() {
		_ = c.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
		t.Error("Close waits for the peer")
		far.Close()
		<-closed
	}
	assert.Error(t, <-done)
	assert.Error(t, <-done)
}
