//go:build interop

package tls

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop"
	"github.com/nfsrdma/nfsrdma/interop/posix"
	"github.com/nfsrdma/nfsrdma/interop/workload"
)

// TestTLSSuites works on mounts inside of TLS as interop's TestPosix and TestLinux do on
// others. Over NFSv4.2, each sixth function of package posix behaves as on a tmpfs of the
// host, but for the differences of Linux's client. Over NFSv3, what package workload
// makes is at the server as the guest sees it on a new mount. With INTEROP_SOAK, both
// versions do both, with all functions and the whole workload with its large trees.
func TestTLSSuites(t *testing.T) {
	s := newSite(t, map[string]string{"tls": "xprtsec=tls:mtls", "mtls": "xprtsec=mtls"})
	soak := os.Getenv("INTEROP_SOAK") != ""
	var cases []string
	for i, c := range posix.Cases() {
		if i%6 == 0 {
			cases = append(cases, c.Name)
		}
	}
	functions, steps := strings.Join(cases, " "), "sizes parallel rename links attributes access names"
	if soak {
		functions, steps = "", ""
	}
	for _, c := range []struct{ export, vers, system string }{
		{"mtls", "4.2", posix.Linux4OnNFSRDMAD}, {"tls", "3", posix.LinuxOnNFSRDMAD},
	} {
		if soak || c.vers == "4.2" {
			t.Run("posix by "+c.vers, func(t *testing.T) {
				s := s.withTest(t)
				reference := onTmpfs(t, functions)
				assert.Greater(t, len(reference), 40, "functions")
				s.mountExport(c.export, "/mnt", c.vers, c.export)
				seen := parseTranscript(t, s.Must("mkdir /mnt/suite && guestwork posix /mnt/suite %s && rmdir /mnt/suite", functions))
				for _, wrong := range posix.Compare(reference, seen, c.system, posix.Differences) {
					t.Error(wrong)
				}
				s.Must("umount /mnt")
			})
		}
		if soak || c.vers == "3" {
			t.Run("workload by "+c.vers, func(t *testing.T) {
				s := s.withTest(t)
				s.mountExport(c.export, "/mnt", c.vers, c.export)
				t.Log(s.Must("mkdir /mnt/work && guestwork run /mnt/work %s; umount /mnt", steps))
				s.mountExport(c.export, "/mnt", c.vers, c.export)
				there := s.Must("guestwork manifest /mnt/work; umount /mnt")
				var here strings.Builder
				work := filepath.Join(s.base, c.export, "work")
				require.NoError(t, workload.Manifest(work, &here))
				assert.Greater(t, strings.Count(there, "\n"), 100, "objects")
				assert.True(t, here.String() == there, "the manifests differ")
				if soak {
					require.NoError(t, workload.Content(work))
				}
			})
		}
	}
	protected, size, clear := s.observed(t)
	t.Logf("%d connections with %d bytes in TLS, %d unencrypted", protected, size, clear)
}

// onTmpfs runs functions of the suite, or all, on a tmpfs of the host, in a mount namespace
// that ends with it.
func onTmpfs(t *testing.T, functions string) posix.Transcript {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "tmpfs-") // which all users reach
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	var out, said strings.Builder
	cmd := exec.Command("sh", "-c", "mount -t tmpfs -o mode=755 tmpfs "+dir+" && exec "+programPath("guestwork")+" posix "+dir+" "+functions)
	cmd.Stdout, cmd.Stderr = &out, &said
	p, err := interop.StartProcessIn(cmd, syscall.CLONE_NEWNS)
	require.NoError(t, err)
	require.Zero(t, p.ExitCode(), said.String())
	return parseTranscript(t, out.String())
}

func parseTranscript(t *testing.T, out string) posix.Transcript {
	t.Helper()
	seen, err := posix.Parse(strings.NewReader(out))
	require.NoError(t, err)
	return seen
}
