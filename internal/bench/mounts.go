package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Names of mount points: memfs, tcpfs and pagefs are limits, oursPoint is the
// export's.
const (
	memPoint  = "memfs"
	tcpPoint  = "tcpfs"
	pagePoint = "pagefs"
	oursPoint = "mount"
)

// mountOnce returns the mount point with that name. It mounts the file system if
// necessary.
func (w *testbed) mountOnce(name string, mount func(point string) error) (string, error) {
	if point := w.mounts[name]; point != "" {
		return point, nil
	}
	point := filepath.Join(w.dir, name)
	if err := os.Mkdir(point, 0o755); err != nil {
		return "", err
	}
	if err := mount(point); err != nil {
		return "", err
	}
	w.mounts[name] = point
	return point, nil
}

// mountMemFS returns memfs's mount point.
func (w *testbed) mountMemFS() (string, error) { return w.mountLimitFS(memPoint) }

// mountTCPFS returns tcpfs's mount point.
func (w *testbed) mountTCPFS() (string, error) {
	s, err := w.ensureTCPServer(anyCPU)
	if err != nil {
		return "", err
	}
	return w.mountLimitFS(tcpPoint, s.addr)
}

// mountLimitFS returns the mount point for a role that this program plays.
func (w *testbed) mountLimitFS(role string, args ...string) (string, error) {
	return w.mountOnce(role, func(point string) error {
		s, err := startServer(w.ctx, anyCPU, "at", w.self, append([]string{roleWord, role, point}, args...)...)
		if err == nil {
			w.servers[role] = s
		}
		return err
	})
}

// mountExport returns mountrdma's mount point for the export.
func (w *testbed) mountExport() (string, error) {
	s, err := w.ensureNfsrdmad(anyCPU)
	if err != nil {
		return "", err
	}
	return w.mountServer(oursPoint, s)
}

// mountServer returns mountrdma's mount point for a server's export, with options.
func (w *testbed) mountServer(name string, s *server, options ...string) (string, error) {
	return w.mountOnce(name, func(point string) error {
		host, port, err := net.SplitHostPort(s.addr)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(w.ctx, w.programPath("mountrdma"), host+":"+exportName, point,
			"-o", strings.Join(append(options, "port="+port), ","))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", cmd, err, out)
		}
		return nil
	})
}
