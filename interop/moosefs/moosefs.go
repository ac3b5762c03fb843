// Package moosefs runs MooseFS for tests: a master, a chunk server and the mounts of
// several hosts, in the network namespace of the caller, which must have no other
// network than the loopback device. They end with the test.
package moosefs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/interop"
)

// address is the servers': they accept no loopback address.
const address = "192.0.2.1"

// A Cluster is a running MooseFS.
type Cluster struct {
	t         testing.TB
	root, dir string
}

// Start starts a Cluster from root, which interop/moosefs/build has printed. sustain is
// the time after which it gives up a silent mount's locks; it has been seen to take up
// to a minute more.
func Start(t testing.TB, root string, sustain time.Duration) *Cluster {
	t.Helper()
	c := &Cluster{t: t, root: root, dir: t.TempDir()}
	out, err := exec.Command("sh", "-ec", "ip link set lo up; ip address add "+address+"/24 dev lo").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range []string{"master", "chunks", "disk"} {
		require.NoError(t, os.Mkdir(c.path(name), 0o755))
	}
	c.write("master/metadata.mfs", "MFSM NEW")
	c.write("master/exports", "* / rw,alldirs,maproot=0\n")
	c.write("master/topology", "")
	c.write("master/config", "DATA_PATH = %[1]s\nEXPORTS_FILENAME = %[1]s/exports\nTOPOLOGY_FILENAME = %[1]s/topology\nSESSION_SUSTAIN_TIME = %[2]d\n", c.path("master"), int(sustain.Seconds()))
	c.write("chunks/disks", "%s\n", c.path("disk"))
	c.write("chunks/config", "DATA_PATH = %[1]s\nHDD_CONF_FILENAME = %[1]s/disks\nMASTER_HOST = %[2]s\nHDD_LEAVE_SPACE_DEFAULT = 100MiB\n", c.path("chunks"), address)
	c.run("usr/sbin/mfsmaster", "-f", "-c", c.path("master/config"), "start")
	c.run("usr/sbin/mfschunkserver", "-f", "-c", c.path("chunks/config"), "start")
	c.await("the master", func() error {
		conn, err := net.Dial("tcp", address+":9421")
		if err == nil {
			conn.Close()
		}
		return err
	})
	return c
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) write(name, format string, args ...any) {
	c.t.Helper()
	const common = "WORKING_USER = root\nWORKING_GROUP = root\nLOCK_MEMORY = 0\n"
	content := fmt.Sprintf(format, args...)
	if filepath.Base(name) == "config" {
		content = common + content
	}
	require.NoError(c.t, os.WriteFile(c.path(name), []byte(content), 0o644))
}

// run starts a program, which is killed at the end of the test.
func (c *Cluster) run(program string, args ...string) *interop.Process {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(c.root, program), args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("LD_LIBRARY_PATH=%[1]s/usr/lib/x86_64-linux-gnu:%[1]s/lib/x86_64-linux-gnu", c.root))
	p, err := interop.StartProcess(cmd)
	require.NoError(c.t, err)
	c.t.Cleanup(p.Kill)
	return p
}

// Mount mounts the file system for a host, and waits until files can be written. It
// returns the directory and the process that serves it.
func (c *Cluster) Mount(host string) (dir string, p *interop.Process) {
	c.t.Helper()
	dir = c.path(host)
	require.NoError(c.t, os.Mkdir(dir, 0o755))
	p = c.run("usr/bin/mfsmount", dir, "-f", "-H", address, "-o", "allow_other")
	c.t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	c.await(dir, func() error { return c.tryWrite(dir, filepath.Join(dir, "ready-"+host)) })
	return dir, p
}

// await waits until f succeeds.
func (c *Cluster) await(what string, f func() error) {
	c.t.Helper()
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		require.Less(c.t, time.Since(start), time.Minute, "%s: %v", what, err)
	}
}

func (c *Cluster) tryWrite(dir, file string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	if st.Type != unix.FUSE_SUPER_MAGIC {
		return fmt.Errorf("not mounted yet")
	}
	if err := os.WriteFile(file, []byte("ready"), 0o600); err != nil {
		return err
	}
	return os.Remove(file)
}
