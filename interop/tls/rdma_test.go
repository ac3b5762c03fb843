//go:build interop

package tls

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/interop"
)

// firstBytes are the first bytes of connections, from their clients.
type firstBytes struct {
	sync.Mutex
	seen map[string]int
}

// newTap counts a connection by its first bytes.
func (f *firstBytes) newTap() [2]io.Writer {
	return [2]io.Writer{&firstByteWriter{firstBytes: f}, io.Discard}
}

type firstByteWriter struct {
	*firstBytes
	done bool
}

func (f *firstByteWriter) Write(p []byte) (int, error) {
	if !f.done {
		f.done = true
		kind := "other"
		switch {
		case bytes.HasPrefix(p, []byte("MPA ID Req Frame")):
			kind = "MPA"
		case bytes.HasPrefix(p, []byte{22, 3, 1}):
			kind = "TLS"
		}
		f.Lock()
		defer f.Unlock()
		f.seen[kind]++
	}
	return len(p), nil
}

// runMountrdma runs a command of mountrdma with TLS at an address of localhost.
func (s *tlsSite) runMountrdma(host certtest.Holder, words ...string) (string, error) {
	s.Helper()
	cmd := exec.Command(programPath("mountrdma"), append(words, "--xprtsec", "mtls", "--tls-ca", s.certs+"/ca.pem",
		"--tls-cert", host.Cert, "--tls-key", host.Key)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestTLSRDMA has Linux's siw unencrypted and mountrdma inside TLS work on one port at
// the same time. Linux is refused where the export wants TLS, and by a server that
// requires TLS, which says so in its log.
func TestTLSRDMA(t *testing.T) {
	exports := map[string]string{"open": "xprtsec=none", "mtls": "xprtsec=mtls"}
	data := make([]byte, 512<<10)
	_, _ = rand.Read(data)
	copy(data, mark)
	file := certtest.Write(t, t.TempDir(), "data", data)

	t.Run("allow", func(t *testing.T) {
		s := newSite(t, exports, "--rdma-tls", "allow")
		host := s.root.Issue(withNames("host"))
		require.NoError(t, s.Push(t.Context(), file, "/tmp/data"))
		f := &firstBytes{seen: make(map[string]int)}
		port := portOf(t, interop.NewRelay(t, s.RDMA, f.newTap).Addr)
		options := fmt.Sprintf("vers=4.2,proto=rdma,port=%d", port)
		s.Mount(s.exportPath("open"), "/mnt", options)
		w := s.startWriter("open", "/mnt")
		t.Cleanup(func() { s.Try("touch /tmp/stop") })
		const rounds = 5
		for i := range rounds {
			w.awaitFiles(1)
			made := filepath.Join(s.base, "mtls", fmt.Sprint("made", i))
			out, err := s.runMountrdma(host, "cp", file, fmt.Sprintf("nfs://localhost:%d%s", port, made))
			require.NoError(t, err, out)
			content, err := os.ReadFile(made)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(data, content))
		}
		s.Must("touch /tmp/stop")
		w.checkFiles(data)
		s.Must("rm /tmp/stop; umount /mnt")
		assert.Contains(t, s.expectRejected(s.exportPath("mtls"), options), "Operation not permitted")
		f.Lock()
		defer f.Unlock()
		t.Log(f.seen)
		assert.GreaterOrEqual(t, f.seen["TLS"], rounds)
		assert.Positive(t, f.seen["MPA"])
		assert.Zero(t, f.seen["other"])
	})
	t.Run("require", func(t *testing.T) {
		s := newSite(t, exports, "--rdma-tls", "require")
		out := s.expectRejected(s.exportPath("open"), fmt.Sprintf("vers=4.2,proto=rdma,retry=0,port=%d", portOf(t, s.RDMA)))
		assert.Contains(t, out, "Connection refused")
		assert.Contains(t, s.daemonLog(), "no TLS")
		out, err := s.runMountrdma(s.root.Issue(withNames("host")), "cp", file, fmt.Sprintf("nfs://%s%s", strings.Replace(s.RDMA, "127.0.0.1", "localhost", 1), filepath.Join(s.base, "mtls", "made")))
		require.NoError(t, err, out)
	})
}
