package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The exported files.
const fileSize = 1 << 30 // in bytes, for big and over

// A directory has that number of files, each with size bytes.
type directory struct{ files, size int }

var directories = map[string]directory{"few": {100, 1 << 10}, "small": {10_000, 1 << 10}, pagesDir: {10_000, pageSize}}

// pagesDir is the directory whose files are reopened.
const pagesDir = "pages"

func fileName(i int) string { return fmt.Sprintf("f%05d", i) }

// exportName is the name under which the data are exported.
const exportName = "/e"

// A testbed is the environment in which the rows run: data and servers. Each server
// starts when first needed, and runs for all rounds.
type testbed struct {
	ctx  context.Context
	opts *options
	self string // this program
	dir  string // for data, server state and mount points

	servers map[string]*server
	mounts  map[string]string // mount points by name
	files   [][]byte          // the large files' mappings
}

func newTestbed(ctx context.Context, o *options) (*testbed, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.data, "nfsrdma-bench-")
	if err != nil {
		return nil, err
	}
	w := &testbed{ctx: ctx, opts: o, self: self, dir: dir, servers: make(map[string]*server), mounts: make(map[string]string)}
	if err := w.createData(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// close stops all processes and removes the data.
func (w *testbed) close() {
	for name, point := range w.mounts {
		if name != memPoint {
			_ = exec.Command(w.programPath("mountrdma"), "umount", point).Run()
		}
	}
	for _, s := range w.servers {
		s.stop()
	}
	for _, m := range w.files {
		_ = unix.Munmap(m)
	}
	_ = os.RemoveAll(w.dir)
}

func (w *testbed) programPath(name string) string { return filepath.Join(w.opts.bin, name) }

// path returns an exported file's path.
func (w *testbed) path(name ...string) string {
	return filepath.Join(append([]string{w.dir, "data"}, name...)...)
}

// createData creates the data. Each block of a file differs from all others.
func (w *testbed) createData() error {
	if err := errors.Join(os.Mkdir(w.path(), 0o755), os.Mkdir(filepath.Join(w.dir, "state"), 0o755)); err != nil {
		return err
	}
	b := make([]byte, blockSize)
	for _, name := range []string{"big", "over"} {
		f, err := os.Create(w.path(name))
		if err != nil {
			return err
		}
		for n := 0; n < fileSize && err == nil; n += blockSize {
			for at := 0; at < blockSize; at += 8 {
				binary.LittleEndian.PutUint64(b[at:], uint64(n+at))
			}
			_, err = f.Write(b)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		m, err := mapFile(w.path(name))
		if err != nil {
			return err
		}
		w.files = append(w.files, m)
	}
	for dir, d := range directories {
		if err := os.Mkdir(w.path(dir), 0o755); err != nil {
			return err
		}
		for i := range d.files {
			if err := os.WriteFile(w.path(dir, fileName(i)), b[:d.size], 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// touchPages reads each page in the large files. Neither side of a row then waits
// for memory that a virtual machine's host has reclaimed. It returns their sum, so
// that the compiler keeps the loads.
//
//go:noinline
func (w *testbed) touchPages() (sum byte) {
	for _, m := range w.files {
		for i := 0; i < len(m); i += pageSize {
			sum += m[i]
		}
	}
	return sum
}

// ensureServer returns the server with that name. It starts the server if
// necessary.
func (w *testbed) ensureServer(name string, start func() (*server, error)) (*server, error) {
	if s := w.servers[name]; s != nil {
		return s, nil
	}
	s, err := start()
	if err == nil {
		w.servers[name] = s
	}
	return s, err
}

// ensureNfsrdmad returns an nfsrdmad on a CPU, with flags.
func (w *testbed) ensureNfsrdmad(cpu int, flags ...string) (*server, error) {
	return w.ensureNfsrdmadAt("rdma", cpu, flags...)
}

// ensureNfsrdmadAt returns an nfsrdmad on a CPU, with flags. The server's addr is
// that for the transport.
func (w *testbed) ensureNfsrdmadAt(transport string, cpu int, flags ...string) (*server, error) {
	name := fmt.Sprintln("nfsrdmad", cpu, flags)
	return w.ensureServer(name, func() (*server, error) { return w.startNfsrdmad(transport, cpu, flags...) })
}

// startNfsrdmad starts an nfsrdmad.
func (w *testbed) startNfsrdmad(transport string, cpu int, flags ...string) (*server, error) {
	state := filepath.Join(w.dir, "state", fmt.Sprint(len(w.servers)))
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--tcp", "", "--no-root-squash", "--state", state}, flags...)
	return startServer(w.ctx, cpu, transport, w.programPath("nfsrdmad"), append(args, w.path()+"="+exportName)...)
}

// ensureTCPServer returns a raw TCP server on a CPU.
func (w *testbed) ensureTCPServer(cpu int) (*server, error) {
	return w.ensureServer(fmt.Sprintln("tcp", cpu), func() (*server, error) {
		return startServer(w.ctx, cpu, "tcp", w.self, roleWord, "tcpserver", w.path("big"), w.path("over"))
	})
}

// delayServer returns s with away added to its round-trip time, or s itself if away
// is 0.
func (w *testbed) delayServer(s *server, away time.Duration) (*server, error) {
	if away == 0 {
		return s, nil
	}
	return w.ensureServer(fmt.Sprintln("delayer", s.addr, away), func() (*server, error) {
		return startServer(w.ctx, anyCPU, "delayed", w.self, roleWord, "delayer", s.addr, (away / 2).String())
	})
}

// exportURL returns the URL of an exported file on a server.
func exportURL(s *server, name string) string { return "nfs://" + s.addr + exportName + "/" + name }

// runRole runs a role process until it exits.
func (w *testbed) runRole(s *server, cpu int, name string, args ...string) (*result, error) {
	return runClient(w.ctx, s, cpu, w.self, append([]string{roleWord, name}, args...)...)
}
