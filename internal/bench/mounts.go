package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Names of mount points: memfs, tcpfs and pagefs are limits, ours the export's.
const (
	memPoint  = "memfs"
	tcpPoint  = "tcpfs"
	pagePoint = "pagefs"
	oursPoint = "mount"
)

// mounted returns the mount point of that name. It mounts the file system if
// necessary.
func (w *world) mounted(name string, mount func(point string) error) (string, error) {
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

// memFS returns the mount point of memfs.
func (w *world) memFS() (string, error) { return w.limitFS(memPoint) }

// tcpFS returns the mount point of tcpfs.
func (w *world) tcpFS() (string, error) {
	s, err := w.tcpServer(anyCPU)
	if err != nil {
		return "", err
	}
	return w.limitFS(tcpPoint, s.addr)
}

// limitFS returns the mount point of a role of this program.
func (w *world) limitFS(role string, args ...string) (string, error) {
	return w.mounted(role, func(point string) error {
		s, err := startServer(w.ctx, anyCPU, "at", w.self, append([]string{roleWord, role, point}, args...)...)
		if err == nil {
			w.servers[role] = s
		}
		return err
	})
}

// mount returns mountrdma's mount point of the export.
func (w *world) mount() (string, error) {
	s, err := w.nfsrdmad(anyCPU)
	if err != nil {
		return "", err
	}
	return w.mountOf(oursPoint, s)
}

// mountOf returns mountrdma's mount point of a server's export, with options.
func (w *world) mountOf(name string, s *server, options ...string) (string, error) {
	return w.mounted(name, func(point string) error {
		host, port, err := net.SplitHostPort(s.addr)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(w.ctx, w.program("mountrdma"), host+":"+exportName, point,
			"-o", strings.Join(append(options, "port="+port), ","))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", cmd, err, out)
		}
		return nil
	})
}
