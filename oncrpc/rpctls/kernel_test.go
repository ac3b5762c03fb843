package rpctls

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
)

// needKernel skips a test if the kernel has no TLS.
func needKernel(t testing.TB) {
	if err := probeKernel(kernelModule); err != nil {
		t.Skipf("this kernel has no TLS (%v); the test runs in the guest of the interop tests", err)
	}
}

// A kernelEnds says which ends of a connection are in the kernel.
type kernelEnds struct{ client, server bool }

func (p kernelEnds) String() string {
	words := map[bool]string{true: "kernel", false: "crypto"}
	return words[p.client] + "-" + words[p.server]
}

// possibleKernelEnds returns the pairings that this kernel can have.
func possibleKernelEnds() []kernelEnds {
	if probeKernel(kernelModule) != nil {
		return []kernelEnds{{}}
	}
	return []kernelEnds{{}, {client: true}, {server: true}, {true, true}}
}

// newPairing returns the ends of a connection, which must be in the kernel as p says.
func newPairing(t testing.TB, p kernelEnds) (client, server *Conn) {
	root := newAuthority(t, "root")
	r := newRig(t, ServerConfig{Files: filesOf(root.Issue(nil)), Kernel: p.server})
	client, server = r.handshakeOK(newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}, Kernel: p.client}))
	require.Equal(t, p, kernelEnds{client.kernel != nil, server.kernel != nil})
	require.Equal(t, p, kernelEnds{client.Security().Kernel, server.Security().Kernel})
	return client, server
}

// TestExactReading checks that a handshake for the kernel takes no byte behind its last
// record: the first data of the client wait in the socket.
func TestExactReading(t *testing.T) {
	root := newAuthority(t, "root")
	r := newRig(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	near, far := r.dialBoth()
	data := randomBytes(3000)
	shaken := make(chan error, 1)
	go func() {
		together := &delayedFlight{Conn: near}
		peer := tls.Client(together, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocolRPC}, Time: testNow, DynamicRecordSizingDisabled: true})
		err := peer.Handshake()
		if err == nil {
			_, err = peer.Write(data)
		}
		shaken <- err
	}()
	w := &recordWire{Conn: far, server: true, exact: true}
	config := r.server.tlsConfig(r.server.store.current(), protocolRPC, false)
	var secrets trafficSecrets
	config.KeyLogWriter = &secrets
	s := tls.Server(w, config)
	require.NoError(t, s.HandshakeContext(context.Background()))
	require.NoError(t, <-shaken)
	assert.True(t, w.isBetweenRecords())
	state := s.ConnectionState()
	head := make([]byte, recordHeader)
	_, err := io.ReadFull(far, head)
	require.NoError(t, err)
	require.Equal(t, byte(23), head[0])
	body := make([]byte, binary.BigEndian.Uint16(head[3:]))
	_, err = io.ReadFull(far, body)
	require.NoError(t, err)
	kind, content := newSealer(t, state.CipherSuite, secrets.client).openRecord(body)
	assert.Equal(t, byte(23), kind, "the first record of these keys")
	assert.Equal(t, data, content)
}

// delayedFlight holds the last flight of a client back, until data follow.
type delayedFlight struct {
	net.Conn
	writes int
	held   []byte
}

func (c *delayedFlight) Write(p []byte) (int, error) {
	c.writes++
	if c.held = append(c.held, p...); c.writes == 1 || p[0] == 23 && len(p) > 2000 {
		_, err := c.Conn.Write(c.held)
		c.held = nil
		return len(p), err
	}
	return len(p), nil
}

// TestKernelMissing checks that crypto/tls makes the records if the kernel does not, and
// that this is told once.
func TestKernelMissing(t *testing.T) {
	root := newAuthority(t, "root")
	r := newRig(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	assert.Equal(t, "off", r.server.Stats().Kernel)
	client := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
	log := new(testLog)
	for _, u := range []*kernelUse{r.server.kernel, client.kernel} {
		u.wanted, u.module, u.log = true, "nosuchmodule", log.debugLogger()
	}
	for range 2 {
		near, far := r.handshakeOK(client)
		want := randomBytes(100_000)
		go func() { _, _ = near.Write(want) }()
		got := make([]byte, len(want))
		_, err := io.ReadFull(far, got)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got))
		assert.False(t, near.Security().Kernel || far.Security().Kernel)
	}
	assert.Equal(t, "not available", r.server.Stats().Kernel)
	assert.Equal(t, 2, bytes.Count([]byte(log.String()), []byte("kernel TLS: not available")), "of the server, and of the client")
}

// TestKernelRecords checks every suite, in both directions, with records that the test
// makes itself.
func TestKernelRecords(t *testing.T) {
	needKernel(t)
	for suite := range kernelSuites {
		t.Run(tls.CipherSuiteName(suite), func(t *testing.T) {
			size := kernelSuites[suite].hash().Size()
			secrets := trafficSecrets{client: randomBytes(size), server: randomBytes(size)}
			near, far := newRig(t, ServerConfig{Files: filesOf(newAuthority(t, "root").Issue(nil))}).dialBoth()
			k, err := enterKernel(far, kernelModule, suite, &secrets, true)
			if errors.Is(err, unix.ENOENT) {
				t.Skip("this kernel has TLS, but not the suite")
			}
			require.NoError(t, err)
			out, in := newSealer(t, suite, secrets.client), newSealer(t, suite, secrets.server)

			var want []byte
			for _, n := range []int{1, 100, maxRecordContent} {
				p := randomBytes(n)
				want = append(want, p...)
				_, err := near.Write(out.sealRecord(23, p))
				require.NoError(t, err)
			}
			got := make([]byte, len(want))
			for n := 0; n < len(got); {
				m, err := k.ReadBuffers([][]byte{got[n:min(n+50, len(got))], got[min(n+50, len(got)):]})
				require.NoError(t, err)
				n += m
			}
			assert.True(t, bytes.Equal(want, got))
			n, err := sequenceOf(k.raw, suite, receiving)
			require.NoError(t, err)
			assert.EqualValues(t, 3, n)

			_, err = k.WriteBuffers(&net.Buffers{want[:4], want[4:]})
			require.NoError(t, err)
			require.NoError(t, k.closeWrite())
			got = nil
			for {
				head := make([]byte, recordHeader)
				_, err := io.ReadFull(near, head)
				require.NoError(t, err)
				body := make([]byte, binary.BigEndian.Uint16(head[3:]))
				_, err = io.ReadFull(near, body)
				require.NoError(t, err)
				kind, content := in.openRecord(body)
				if kind == typeAlert {
					assert.Equal(t, []byte{1, 0}, content)
					break
				}
				got = append(got, content...)
			}
			assert.True(t, bytes.Equal(want, got))
			_, err = near.Read(make([]byte, 1))
			assert.Equal(t, io.EOF, err)
		})
	}
}

// TestKernelControl checks what records that are not data do to a reader in the kernel.
func TestKernelControl(t *testing.T) {
	needKernel(t)
	const suite = tls.TLS_AES_128_GCM_SHA256
	ticket := []byte{messageTicket, 0, 0, 3, 1, 2, 3}
	for name, c := range map[string]struct {
		kind    byte
		content []byte
		client  bool
		want    error // nil: the stream goes on
		text    string
	}{
		"close":                 {typeAlert, []byte{1, 0}, false, io.EOF, ""},
		"another alert":         {typeAlert, []byte{2, 20}, false, nil, "bad record MAC"},
		"user_canceled":         {typeAlert, []byte{1, 90}, false, nil, ""},
		"half an alert":         {typeAlert, []byte{1}, false, nil, "unexpected TLS record"},
		"KeyUpdate":             {typeHandshake, []byte{messageKeyUpdate, 0, 0, 1, 0}, false, io.EOF, ""},
		"tickets":               {typeHandshake, append(ticket, ticket...), true, nil, ""},
		"a ticket for a server": {typeHandshake, ticket, false, nil, "type 4"},
		"ticket and KeyUpdate":  {typeHandshake, append(ticket, messageKeyUpdate, 0, 0, 1, 0), true, io.EOF, ""},
		"a long length":         {typeHandshake, []byte{messageTicket, 255, 255, 255, 0}, true, nil, "type 4"},
		"a short message":       {typeHandshake, []byte{messageTicket, 0}, true, nil, "incomplete message"},
		"another message":       {typeHandshake, []byte{13, 0, 0, 0}, true, nil, "type 13"},
		"no message":            {typeHandshake, nil, true, nil, "type 22 and 0 bytes"},
		"an unknown type":       {99, []byte("x"), false, nil, "type 99"},
	} {
		t.Run(name, func(t *testing.T) {
			secrets := trafficSecrets{client: randomBytes(32), server: randomBytes(32)}
			near, far := newRig(t, ServerConfig{Files: filesOf(newAuthority(t, "root").Issue(nil))}).dialBoth()
			k, err := enterKernel(far, kernelModule, suite, &secrets, !c.client)
			require.NoError(t, err)
			k.log = new(testLog).newLogger()
			out := newSealer(t, suite, secrets.forDirection(receiving, !c.client))
			_, err = near.Write(append(append(out.sealRecord(23, []byte("ab")), out.sealRecord(c.kind, c.content)...), out.sealRecord(23, []byte("cd"))...))
			require.NoError(t, err)
			b := make([]byte, 2)
			_, err = io.ReadFull(readerFunc(k.Read), b)
			require.NoError(t, err)
			assert.Equal(t, "ab", string(b))
			_, err = io.ReadFull(readerFunc(k.Read), b)
			switch {
			case c.want != nil:
				assert.Equal(t, c.want, err)
			case c.text != "":
				assert.ErrorContains(t, err, c.text)
			default:
				require.NoError(t, err)
				assert.Equal(t, "cd", string(b))
				return
			}
			_, again := k.Read(b)
			assert.Equal(t, err, again)
		})
	}
	t.Run("forged", func(t *testing.T) {
		secrets := trafficSecrets{client: randomBytes(32), server: randomBytes(32)}
		near, far := newRig(t, ServerConfig{Files: filesOf(newAuthority(t, "root").Issue(nil))}).dialBoth()
		k, err := enterKernel(far, kernelModule, suite, &secrets, true)
		require.NoError(t, err)
		record := newSealer(t, suite, secrets.client).sealRecord(23, []byte("ab"))
		record[7] ^= 1
		_, err = near.Write(record)
		require.NoError(t, err)
		_, err = k.Read(make([]byte, 1))
		assert.ErrorIs(t, err, unix.EBADMSG)
	})
}

type readerFunc func([]byte) (int, error)

func (r readerFunc) Read(p []byte) (int, error) { return r(p) }

// TestKernelKeyUpdate checks that a peer's KeyUpdate ends a connection cleanly: both ends
// see the end that TLS announces.
func TestKernelKeyUpdate(t *testing.T) {
	needKernel(t)
	root := newAuthority(t, "root")
	r := newRig(t, ServerConfig{Files: filesOf(root.Issue(nil)), Kernel: true})
	near, far := r.dialBoth()
	var secrets trafficSecrets
	peer := tls.Client(near, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocolRPC}, Time: testNow, KeyLogWriter: &secrets})
	shaken := make(chan error, 1)
	go func() { shaken <- peer.Handshake() }()
	secured, err := r.server.Secure(context.Background(), far)
	require.NoError(t, err)
	require.NoError(t, <-shaken)
	require.Equal(t, "TLS_AES_128_GCM_SHA256", secured.Security().Suite)
	require.True(t, secured.Security().Kernel)
	_, err = near.Write(keyUpdate(t, secrets.client))
	require.NoError(t, err)
	_, err = secured.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
	assert.Contains(t, r.log.String(), "updates its TLS keys")
	require.NoError(t, secured.Close())
	_, err = peer.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
}

// TestKernelTail checks that the end of a stream does not overtake what the kernel holds
// while TCP has no memory for it.
func TestKernelTail(t *testing.T) {
	needKernel(t)
	for _, end := range []func(*Conn) error{(*Conn).CloseWrite, (*Conn).Close} {
		client, server := newPairing(t, kernelEnds{client: true})
		client.kernel.closeTimeout = time.Minute
		require.NoError(t, client.wire.Conn.(*net.TCPConn).SetWriteBuffer(1)) // the least: less than a record
		require.NoError(t, server.wire.Conn.(*net.TCPConn).SetReadBuffer(1))
		want := randomBytes(maxRecordContent)
		got := make(chan []byte, 1)
		go func() {
			time.Sleep(50 * time.Millisecond) // so that the end comes first; otherwise this test finds nothing
			b, err := io.ReadAll(server)
			assert.NoError(t, err)
			got <- b
		}()
		_, err := client.Write(want)
		require.NoError(t, err)
		require.NoError(t, end(client))
		assert.True(t, bytes.Equal(want, <-got))
	}
}

// TestKernelWorn checks that a connection ends before its keys have protected too much.
func TestKernelWorn(t *testing.T) {
	needKernel(t)
	client, server := newPairing(t, kernelEnds{client: true})
	client.limit = 3
	go func() { _, _ = io.Copy(server, server) }()
	for range 3 {
		_, err := client.Write([]byte("x"))
		require.NoError(t, err)
		_, err = client.Read(make([]byte, 1))
		require.NoError(t, err)
	}
	_, err := client.Write([]byte("x"))
	assert.ErrorIs(t, err, ErrWorn)
	_, err = client.Read(make([]byte, 1))
	assert.ErrorIs(t, err, ErrWorn)
	_, err = client.ReadBuffers([][]byte{make([]byte, 1)})
	assert.ErrorIs(t, err, ErrWorn)

	k := client.kernel
	k.out = kernelCount{raw: k.raw, suite: k.out.suite, direction: sending, bytes: 1 << 20}
	assert.False(t, k.out.reached(1<<20), "bytes are not records")
	assert.EqualValues(t, 3, k.out.knownRecords)
}

// TestKernelCut checks that the server can end a connection in the kernel whose client is
// trusted no longer, while it reads.
func TestKernelCut(t *testing.T) {
	needKernel(t)
	_, server := newPairing(t, kernelEnds{server: true})
	done := make(chan error, 1)
	go func() {
		_, err := server.Read(make([]byte, 1))
		done <- err
	}()
	cause := errors.New("cause")
	server.abort(cause)
	assert.Equal(t, cause, <-done)
	require.NoError(t, server.Close())
}
