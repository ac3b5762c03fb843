//go:build interop

package tls

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
)

// build builds a program for the guest, which has no libraries for it.
func build(t *testing.T, args ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", append(args[:len(args)-1:len(args)-1], "-o", path, args[len(args)-1])...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// TestKernelUnits runs the tests of package rpctls that need TLS in the kernel.
func TestKernelUnits(t *testing.T) {
	root := certtest.New(t, "root", time.Now())
	m := newMachine(t, certtest.Bundle(root), root.Issue(nil))
	require.NoError(t, m.Push(t.Context(), build(t, "test", "-c", "github.com/nfsrdma/nfsrdma/rpctls"), "/tmp/rpctls.test"))
	out := m.must("cd /tmp && chmod 755 rpctls.test && ./rpctls.test -test.v -test.timeout 220s -test.run '%s' 2>&1 || echo failed", "Kernel|Buffers|Interrupted|Deadline|Close|ForgedEnd|Reset|Vanishes")
	t.Logf("%s", out)
	assert.NotContains(t, out, "failed")
	assert.LessOrEqual(t, strings.Count(out, "SKIP"), 1, "the guest has all suites but that of ChaCha20")
}
