package rpctls

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestKernelIdle checks that a peer does not occupy a reader for ever with records that are
// not data, and that they count.
func TestKernelIdle(t *testing.T) {
	needKernel(t)
	const suite = tls.TLS_AES_128_GCM_SHA256
	secrets := trafficSecrets{client: randomBytes(32), server: randomBytes(32)}
	near, far := newRig(t, ServerConfig{Files: filesOf(newAuthority(t, "root").Issue(nil))}).dialBoth()
	k, err := enterKernel(far, kernelModule, suite, &secrets, true)
	require.NoError(t, err)
	out := newSealer(t, suite, secrets.client)
	for range 2 {
		for range maxControlRecords {
			_, err = near.Write(out.sealRecord(typeAlert, []byte{1, alertCanceled}))
			require.NoError(t, err)
		}
		_, err = near.Write(out.sealRecord(23, []byte("a")))
		require.NoError(t, err)
		_, err = k.Read(make([]byte, 1))
		require.NoError(t, err)
	}
	assert.EqualValues(t, 2*(maxControlRecords+1), k.in.bytes, "counts at least the records")
	for range maxControlRecords + 1 {
		_, err = near.Write(out.sealRecord(typeAlert, []byte{1, alertCanceled}))
		require.NoError(t, err)
	}
	require.NoError(t, far.SetReadDeadline(time.Now().Add(10*time.Second))) // a reader without a bound waits
	_, err = k.Read(make([]byte, 1))
	assert.ErrorIs(t, err, errIdle)
}

// TestKernelVanished checks that memory that vanishes, as that of a file which is truncated,
// leaves the stream whole: what is written has left, and other bytes may follow.
func TestKernelVanished(t *testing.T) {
	needKernel(t)
	page := unix.Getpagesize()
	for _, whole := range []int{0, 1, 4, 7, 20} {
		client, server := newPairing(t, kernelEnds{client: true})
		memory, err := unix.Mmap(-1, 0, 32*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		require.NoError(t, err)
		copy(memory, randomBytes(len(memory)))
		want := append([]byte("head"), memory[:whole*page]...)
		require.NoError(t, unix.Mprotect(memory[whole*page:], unix.PROT_NONE))
		got := make(chan []byte, 1)
		go func() {
			b, err := io.ReadAll(server)
			assert.NoError(t, err)
			got <- b
		}()
		v := net.Buffers{[]byte("head"), memory, []byte("tail")}
		n, err := client.WriteBuffers(&v)
		assert.ErrorIs(t, err, unix.EFAULT)
		require.LessOrEqual(t, int(n), len(want))
		_, err = client.Write([]byte("more"))
		require.NoError(t, err)
		require.NoError(t, client.CloseWrite())
		assert.True(t, bytes.Equal(append(want[:n:n], "more"...), <-got), "%d pages", whole)
		require.NoError(t, unix.Munmap(memory))
	}
}
