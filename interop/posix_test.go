//go:build interop

package interop

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/interop/posix"
)

// TestPosix runs the suite on a tmpfs of the host and on mounts. Each mount
// must match the tmpfs, except for the differences listed in posix.Differences
// and docs/posix.md.
func TestPosix(t *testing.T) {
	sharedGuest(t)
	reference := runSuite(t, mountTmpfs(t))
	type system struct {
		name string
		see  func(t *testing.T) posix.Transcript
	}
	systems := []system{
		{posix.FUSEOnNFSRDMAD, func(t *testing.T) posix.Transcript { return suiteOnFUSE(t, nfsrdmadShop(t)) }},
		{posix.FUSEOnKNFSD, func(t *testing.T) posix.Transcript { return suiteOnFUSE(t, knfsdShop(t)) }},
		{posix.LinuxOnNFSRDMAD, suiteOnLinux},
		{posix.Linux4OnNFSRDMAD, suiteByVersion4},
	}
	if os.Getenv("INTEROP_SOAK") != "" {
		systems = append(systems, system{posix.Linux4OnNFSRDMAD, suiteOverTCP})
	}
	for _, system := range systems {
		t.Run(system.name, func(t *testing.T) {
			var seen posix.Transcript
			logTime(t, "suite", func() { seen = system.see(t) })
			wrong := posix.Compare(reference, seen, system.name, posix.Differences)
			for _, w := range wrong {
				t.Error(w)
			}
		})
	}
}

// mountTmpfs mounts a tmpfs for this test.
func mountTmpfs(t *testing.T) string {
	dir := reachableDir(t)
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// runSuite runs the suite in a directory of this host, in a process that can be
// killed. The cases it begins are seen even if the suite does not end.
func runSuite(t *testing.T, dir string) posix.Transcript {
	t.Helper()
	out, err := tryOnHost(dir, programPath("guestwork")+" posix "+dir)
	return parseTranscript(t, out, err)
}

func parseTranscript(t *testing.T, out string, err error) posix.Transcript {
	t.Helper()
	require.NoError(t, err, "%s", outputTail(out))
	seen, err := posix.Parse(strings.NewReader(out))
	require.NoError(t, err, "%s", outputTail(out))
	_, err = io.WriteString(openTranscript(t), out)
	require.NoError(t, err)
	return seen
}

// openTranscript returns a file for the suite's output in the directory
// INTEROP_TRANSCRIPTS, or io.Discard if the variable is unset.
func openTranscript(t *testing.T) io.Writer {
	dir := os.Getenv("INTEROP_TRANSCRIPTS")
	if dir == "" {
		return io.Discard
	}
	f, err := os.Create(filepath.Join(dir, strings.NewReplacer("/", "-", ",_", "-").Replace(t.Name())))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func suiteOnFUSE(t *testing.T, s mountServer) posix.Transcript {
	m := s.mountFUSE(t, "dev", "suid") // as the tmpfs is
	t.Cleanup(func() { s.runShell(t, "rm -rf suite") })
	require.NoError(t, os.Mkdir(m.point+"/suite", 0o755))
	seen := runSuite(t, m.point+"/suite")
	require.NoError(t, os.Remove(m.point+"/suite"), "the suite leaves no files")
	m.unmountFUSE()
	return seen
}

func suiteOnLinux(t *testing.T) posix.Transcript {
	return suiteBy(t, startDaemon(t, "--no-root-squash", "--vers", "3").guestSite(), "rdma")
}

func suiteByVersion4(t *testing.T) posix.Transcript {
	return suiteBy(t, startDaemon(t, "--no-root-squash").guestSite().withVersion("4.2"), "rdma")
}

func suiteOverTCP(t *testing.T) posix.Transcript {
	return suiteBy(t, startDaemon(t, "--no-root-squash").guestSite().withVersion("4.2"), "tcp")
}

// suiteBy runs the suite in the guest on a site.
func suiteBy(t *testing.T, s guestSite, transport string) posix.Transcript {
	t.Helper()
	s.mountInGuest(t, "/mnt", s.mountOptions(transport))
	out, status := tryInGuest(t, "mkdir /mnt/suite && guestwork posix /mnt/suite && rmdir /mnt/suite")
	var err error
	if status != 0 {
		err = fmt.Errorf("exit status %d", status)
	}
	seen := parseTranscript(t, out, err)
	unmountInGuest(t, "/mnt")
	return seen
}
