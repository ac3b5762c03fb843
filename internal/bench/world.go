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
const fileSize = 1 << 30 // bytes, of big and over

// A directory has files files of size bytes.
type directory struct{ files, size int }

var directories = map[string]directory{"few": {100, 1 << 10}, "small": {10_000, 1 << 10}, pages: {10_000, page}}

// pages is the directory whose files are opened again.
const pages = "pages"

func fileName(i int) string { return fmt.Sprintf("f%05d", i) }

// exportName is the export with the data.
const exportName = "/e"

// A world is the environment of the rows: data and servers. Each server starts
// when first needed, and runs for all rounds.
type world struct {
	ctx  context.Context
	o    *options
	self string // this program
	dir  string // for data, states and mount points

	servers map[string]*server
	mounts  map[string]string // mount points by name
	files   [][]byte          // mappings of the large files
}

func newWorld(ctx context.Context, o *options) (*world, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.data, "nfsrdma-bench-")
	if err != nil {
		return nil, err
	}
	w := &world{ctx: ctx, o: o, self: self, dir: dir, servers: make(map[string]*server), mounts: make(map[string]string)}
	if err := w.fill(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// close ends all processes and removes the data.
func (w *world) close() {
	for name, point := range w.mounts {
		if name != memPoint {
			_ = exec.Command(w.program("mountrdma"), "umount", point).Run()
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

func (w *world) program(name string) string { return filepath.Join(w.o.bin, name) }

// path returns the path of an exported file.
func (w *world) path(name ...string) string {
	return filepath.Join(append([]string{w.dir, "data"}, name...)...)
}

// fill makes the data. Each block of a file differs from all others.
func (w *world) fill() error {
	if err := errors.Join(os.Mkdir(w.path(), 0o755), os.Mkdir(filepath.Join(w.dir, "state"), 0o755)); err != nil {
		return err
	}
	b := make([]byte, block)
	for _, name := range []string{"big", "over"} {
		f, err := os.Create(w.path(name))
		if err != nil {
			return err
		}
		for n := 0; n < fileSize && err == nil; n += block {
			for at := 0; at < block; at += 8 {
				binary.LittleEndian.PutUint64(b[at:], uint64(n+at))
			}
			_, err = f.Write(b)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		m, err := mapped(w.path(name))
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

// touch looks at each page of the large files. Neither side of a row then waits for memory
// that a virtual machine's host took back meanwhile. It returns their sum, so that the
// compiler keeps the loads.
//
//go:noinline
func (w *world) touch() (sum byte) {
	for _, m := range w.files {
		for i := 0; i < len(m); i += page {
			sum += m[i]
		}
	}
	return sum
}

// server returns the server of that name. It starts the server if necessary.
func (w *world) server(name string, start func() (*server, error)) (*server, error) {
	if s := w.servers[name]; s != nil {
		return s, nil
	}
	s, err := start()
	if err == nil {
		w.servers[name] = s
	}
	return s, err
}

// nfsrdmad returns an nfsrdmad on a CPU, with flags.
func (w *world) nfsrdmad(cpu int, flags ...string) (*server, error) {
	return w.nfsrdmadAt("rdma", cpu, flags...)
}

// nfsrdmadAt is nfsrdmad, at its address of a transport.
func (w *world) nfsrdmadAt(transport string, cpu int, flags ...string) (*server, error) {
	name := fmt.Sprintln("nfsrdmad", cpu, flags)
	return w.server(name, func() (*server, error) { return w.freshNfsrdmad(transport, cpu, flags...) })
}

// freshNfsrdmad starts an nfsrdmad.
func (w *world) freshNfsrdmad(transport string, cpu int, flags ...string) (*server, error) {
	state := filepath.Join(w.dir, "state", fmt.Sprint(len(w.servers)))
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--tcp", "", "--no-root-squash", "--state", state}, flags...)
	return startServer(w.ctx, cpu, transport, w.program("nfsrdmad"), append(args, w.path()+"="+exportName)...)
}

// tcpServer returns a raw TCP server on a CPU.
func (w *world) tcpServer(cpu int) (*server, error) {
	return w.server(fmt.Sprintln("tcp", cpu), func() (*server, error) {
		return startServer(w.ctx, cpu, "tcp", w.self, roleWord, "tcpserver", w.path("big"), w.path("over"))
	})
}

// delayer returns a server that is s, farther away by a round trip; 0: s
// itself.
func (w *world) delayer(s *server, away time.Duration) (*server, error) {
	if away == 0 {
		return s, nil
	}
	return w.server(fmt.Sprintln("delayer", s.addr, away), func() (*server, error) {
		return startServer(w.ctx, anyCPU, "delayed", w.self, roleWord, "delayer", s.addr, (away / 2).String())
	})
}

// url returns the URL of an exported file on a server.
func url(s *server, name string) string { return "nfs://" + s.addr + exportName + "/" + name }

// role runs a role of this program to its end.
func (w *world) role(s *server, cpu int, name string, args ...string) (*result, error) {
	return client(w.ctx, s, cpu, w.self, append([]string{roleWord, name}, args...)...)
}
