package fusefs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A Mount is a mounted file system that is being served. Except for Wait and
// Unmount, its methods are called to answer the kernel's requests.
type Mount struct {
	// Requests without a method here are answered with ENOSYS, and the kernel
	// stops sending them: extended attributes, locks (which the kernel keeps
	// itself), fallocate, SEEK_HOLE, copy_file_range, O_TMPFILE.
	fuse.RawFileSystem

	cfg     Config
	blksize int
	nameMax uint32

	server *fuse.Server
	fd     int // of /dev/fuse; server closes it

	notifyFD     int           // a duplicate of fd, open as long as notes are sent
	noting       sync.RWMutex  // read-held while starting a note that may come after serve ended
	noted        bool          // notifyFD is about to be closed
	dev          atomic.Uint64 // of the mount
	lends        atomic.Bool   // lends names of held directories to the kernel
	epoch        epoch
	look         look
	answers      answers
	table        *table
	files        files
	closes       closes
	outlived     atomic.Uint32 // process that has ended, and whose lock stayed
	callers      callers
	budget       *nfsclient.Budget
	ops          ops
	readBuffers  readBuffers
	writeBuffers *writeBuffers
	notes        sync.WaitGroup // notes to the kernel under way

	clock      atomic.Uint64
	complained atomic.Int64 // time of the last complaint, in nanoseconds since 1970
	sillyCount atomic.Uint32
	plain      atomic.Bool // the server has no READDIRPLUS
	whole      atomic.Bool // the server grants attributes, too

	life context.Context // until the kernel has ended the mount
	quit context.CancelFunc
	done chan struct{} // closed when serving has ended
}

// New mounts and serves a file system. It returns when the file system answers.
func New(cfg Config) (*Mount, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	m := &Mount{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		cfg:           cfg,
		blksize:       cfg.FS.WriteSize(),
		files:         files{all: make(map[uint64]*file), dirs: make(map[uint64]*dir)},
		callers:       callers{client: cfg.Client, all: make(map[callerKey]*caller)},
		answers:       answers{all: make(map[uint32]answer)},
		budget:        nfsclient.NewBudget(writeBudget),
		writeBuffers:  newWriteBuffers(),
		done:          make(chan struct{}),
	}
	m.life, m.quit = context.WithCancel(context.Background())
	m.look.scan = m.scan
	m.table = newTable(m, cfg.FS.Root())
	if cfg.Locks != nil {
		cfg.Locks.OnLost(m.lostLock)
	}
	if err := m.meet(); err != nil {
		return nil, err
	}
	var err error
	if m.fd, err = attach(&m.cfg); err != nil {
		return nil, err
	}
	if m.notifyFD, err = unix.FcntlInt(uintptr(m.fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		_ = detach(&m.cfg)
		unix.Close(m.fd)
		return nil, os.NewSyscallError("dup", err)
	}
	if m.server, err = fuse.NewServer(m, fmt.Sprintf("/dev/fd/%d", m.fd), m.options()); err != nil {
		_ = detach(&m.cfg)
		unix.Close(m.notifyFD)
		return nil, fmt.Errorf("%s: the kernel's FUSE refused the mount: %w", cfg.Point, err)
	}
	go m.serve()
	if err := refusePoll(cfg.Point); err != nil {
		_ = m.Unmount()
		return nil, fmt.Errorf("%s does not answer: %w", cfg.Point, err)
	}
	m.raiseReadAhead()
	m.lendNames()
	return m, nil
}

// meet asks the server for the root's attributes and limits, before the kernel
// sends requests.
func (m *Mount) meet() error {
	root := m.table.node(fuse.FUSE_ROOT_ID)
	began := m.tick()
	var a nfs3.Attr
	err := m.cfg.Client.ForMount(func(c *nfsclient.Client) (err error) {
		a, err = c.GetAttr(context.Background(), root.fh)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", m.cfg.Source, err)
	}
	m.learn(root, began, &a)
	m.nameMax = 255
	_ = m.cfg.Client.ForMount(func(c *nfsclient.Client) error { // without limits, the usual one holds
		limits, err := c.PathConf(context.Background(), root.fh)
		if err == nil {
			m.nameMax = limits.NameMax
		}
		return err
	})
	return nil
}

// options returns the options for go-fuse, which serves but does not mount.
func (m *Mount) options() *fuse.MountOptions {
	return &fuse.MountOptions{
		Name:          "nfsrdma",
		FsName:        m.cfg.Source,
		MaxWrite:      maxTransfer,
		MaxBackground: maxBackground,
		DisableXAttrs: true,

		EnableSymlinkCaching: true, // another path is another link
		DisableSplice:        true, // data come from memory, not from a file descriptor
		Logger:               slog.NewLogLogger(m.cfg.Log.Handler(), slog.LevelWarn),

		// With O_TRUNC in CREATE and OPEN, a file that another client created
		// meanwhile is emptied too. The server clears set-user-id bits on
		// writes, and knows which writers may keep them. Not every listing
		// needs attributes. A file opened with O_DIRECT can still be mapped,
		// and asynchronous direct I/O does not wait.
		ExtraCapabilities: fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV |
			fuse.CAP_READDIRPLUS_AUTO | fuse.CAP_DIRECT_IO_ALLOW_MMAP | fuse.CAP_ASYNC_DIO | m.cfg.locksCaps(),
	}
}

// serve answers the kernel until the file system is unmounted.
func (m *Mount) serve() {
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { m.watch(stop) })
	m.server.Serve()
	m.quit()
	close(stop)
	watching.Wait()
	m.readBuffers.close()
	m.look.own.close()
	m.leave()
	m.noting.Lock()
	m.noted = true
	m.noting.Unlock()
	m.notes.Wait()
	unix.Close(m.notifyFD)
	close(m.done)
}

// aborted reports whether the kernel has cut the connection, so that no process
// waits for answers any more. The caller may have requests under way.
func (m *Mount) aborted() bool {
	p := []unix.PollFd{{Fd: int32(m.fd)}}
	_, err := unix.Poll(p, 0)
	return err == nil && p[0].Revents&unix.POLLERR != 0
}

// leave sends the remaining dirty data after the kernel has gone, and removes
// the hidden files: the kernel does not wait for the release of files that were
// closed shortly before.
func (m *Mount) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	for _, n := range m.table.all() {
		if err := m.sync(ctx, n); err != nil {
			m.cfg.Log.Error("written data are lost", "source", m.cfg.Source, "err", err)
		}
		m.removeHidden(ctx, n)
		if p, w := n.use(); w != nil {
			p.retire(w)
			p.unuse(w)
		}
	}
	m.complainLost(m.table.untold())
}

// Wait returns when the file system has been unmounted, by Unmount or
// otherwise, and everything that can be is at the server.
func (m *Mount) Wait() { <-m.done }

// Unmount unmounts the file system and waits as Wait does. It fails while files
// are open. A mount namespace that holds a copy of the mount keeps the file
// system in use, and Unmount waits for that copy too.
func (m *Mount) Unmount() error {
	select {
	case <-m.done:
		return nil
	default:
	}
	if err := detach(&m.cfg); err != nil {
		return err
	}
	m.Wait()
	return nil
}

// String implements fuse.RawFileSystem.
func (m *Mount) String() string { return "nfsrdma" }
