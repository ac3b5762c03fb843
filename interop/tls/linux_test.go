//go:build interop

package tls

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/interop"
)

// TestTLSLinux mounts nfsrdmad by Linux's client with xprtsec=tls and mtls, by
// versions 3 and 4.2, and works there. Nothing but TLS records passes behind the
// probe and its answer (R9289-4.1-1), also in the eyes of tshark. Mounts that the
// export does not permit, by what is weaker, are refused.
func TestTLSLinux(t *testing.T) {
	s := newSite(t, map[string]string{"tls": "xprtsec=tls:mtls", "mtls": "xprtsec=mtls"})
	data := make([]byte, 1<<20)
	_, _ = rand.Read(data)
	copy(data, mark)
	require.NoError(t, s.Push(t.Context(), certtest.Write(t, t.TempDir(), "data", data), "/tmp/data"))
	file := filepath.Join(t.TempDir(), "tls.pcap")
	recording := interop.Record(t, file, fmt.Sprintf("tcp port %d", portOf(t, s.TCP)))

	for _, vers := range []string{"3", "4.2"} {
		for _, c := range []struct{ export, sec string }{{"tls", "tls"}, {"tls", "mtls"}, {"mtls", "mtls"}} {
			t.Run(vers+"/"+c.sec+" of "+c.export, func(t *testing.T) {
				s := s.withTest(t)
				s.mountExport(c.export, "/mnt", vers, c.sec)
				s.Must("cd /mnt && mkdir d && cp /tmp/data 'd/%s' && mv 'd/%[1]s' 'd/2 %[1]s' && echo 3 >/proc/sys/vm/drop_caches && cmp /tmp/data 'd/2 %[1]s' && ls -l d && ln -s 'd/2 %[1]s' l && cat l >/dev/null", mark)
				s.Must("rm -r /mnt/d /mnt/l && umount /mnt")
			})
		}
		for _, c := range []struct{ export, sec string }{{"tls", "none"}, {"mtls", "none"}, {"mtls", "tls"}} {
			t.Run(vers+"/"+c.sec+" of "+c.export, func(t *testing.T) {
				s := s.withTest(t)
				out := s.expectRejected(s.exportPath(c.export), s.mountOptions(vers, c.sec))
				assert.Regexp(t, "access denied|Operation not permitted|Permission denied", out)
				t.Logf("%s", out)
			})
		}
	}
	t.Run("another name", func(t *testing.T) { // the certificate is not for the address
		s := s.withTest(t)
		assert.Contains(t, s.expectRejected("10.0.2.2:"+s.base+"/tls", s.mountOptions("4.2", "tls")), "access denied")
	})
	s.Kill() // all has passed
	recording.End(t)
	protected, size, clear := s.observed(t)
	t.Logf("%d connections with %d bytes in TLS, %d unencrypted", protected, size, clear)
	assert.Greater(t, size, 6*2*len(data))
	checkCapture(t, file, portOf(t, s.TCP), protected)
}

// checkCapture has tshark take the connections apart. Of those with TLS, the probe and its
// reply are unencrypted, and nothing else.
func checkCapture(t *testing.T, file string, port, protected int) {
	t.Helper()
	begun := make(map[string]int) // TLS, by the number of the connection
	other := make(map[string]int) // frames that are none
	for line := range strings.Lines(interop.Tshark(t, file, "-d", fmt.Sprintf("tcp.port==%d,tls", port), "-Y", "tcp.len > 0",
		"-T", "fields", "-e", "tcp.stream", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info")) {
		f := strings.Split(line, "\t")
		require.Len(t, f, 3)
		switch {
		case strings.Contains(f[2], "Client Hello"):
			begun[f[0]]++
		case !strings.HasPrefix(f[1], "TLSv1") && f[1] != "TCP": // TCP: a part of a record
			other[f[0]]++
		}
	}
	assert.Len(t, begun, protected)
	for stream := range begun {
		assert.Equal(t, 1, begun[stream])
		assert.Equal(t, 2, other[stream], "unencrypted frames in connection %s", stream)
	}
}
