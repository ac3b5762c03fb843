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
// Unmount, its methods handle the kernel's requests.
type Mount struct {
	// Requests without a method here are answered with ENOSYS, and the kernel
	// stops sending them: extended attributes, locks (which the kernel keeps
	// itself), fallocate, SEEK_HOLE, copy_file_range, O_TMPFILE.
	fuse.RawFileSystem

	cfg     Config
	blksize int
	nameMax uint32

	server *fuse.Server
	fd     int // /dev/fuse; server closes it

	notifyFD      int           // a duplicate of fd, open as long as notifications are sent
	notifyMu      sync.RWMutex  // read-held while starting a notification that may be sent after serveKernel returned
	notifyClosed  bool          // notifyFD is about to be closed
	dev           atomic.Uint64 // the mount's device number
	fsid          atomic.Uint64 // the root's file system ID at the server
	lendsNames    atomic.Bool   // lends names in delegated directories to the kernel
	epoch         epoch
	submounts     submounts
	nameReplies   nameReplies
	table         *nodeTable
	files         files
	releases      pendingReleases
	exitedHolder  atomic.Uint32 // process that has exited, but whose lock remained
	callers       callers
	budget        *nfsclient.Budget
	ops           ops
	readBuffers   readBuffers
	writeBuffers  *writeBuffers
	notifications sync.WaitGroup // notifications to the kernel in flight

	clock         atomic.Uint64
	lastLogged    atomic.Int64 // when a failed call was last logged, in nanoseconds since 1970
	sillyCount    atomic.Uint32
	noReadDirPlus atomic.Bool // the server lacks READDIRPLUS
	grantsAttr    atomic.Bool // the server also delegates attributes
	noLists       atomic.Bool // the server lacks NFSACL

	ctx    context.Context // canceled when the kernel has ended the mount
	cancel context.CancelFunc
	done   chan struct{} // closed when serving has ended
}

// New mounts and serves a file system. It returns when the file system is ready.
func New(cfg Config) (*Mount, error) {
	if err := cfg.applyDefaults(); err != nil {
		return nil, err
	}
	m := &Mount{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		cfg:           cfg,
		blksize:       cfg.FS.WriteSize(),
		files:         files{all: make(map[uint64]*openFile), dirs: make(map[uint64]*openDir)},
		callers:       callers{client: cfg.Client, log: cfg.Log, all: make(map[callerKey]*caller)},
		nameReplies:   nameReplies{all: make(map[uint32]nameReply)},
		budget:        nfsclient.NewBudget(writeBudget),
		writeBuffers:  newWriteBuffers(),
		done:          make(chan struct{}),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.submounts.scan = m.scanMounts
	m.table = newTable(m, cfg.FS.Root())
	if cfg.Locks != nil {
		cfg.Locks.OnLost(m.handleLostLock)
	}
	if err := m.fetchRoot(); err != nil {
		return nil, err
	}
	var err error
	if m.fd, err = mountFS(&m.cfg); err != nil {
		return nil, err
	}
	if m.notifyFD, err = unix.FcntlInt(uintptr(m.fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		_ = unmountFS(&m.cfg)
		unix.Close(m.fd)
		return nil, os.NewSyscallError("dup", err)
	}
	if m.server, err = fuse.NewServer(m, fmt.Sprintf("/dev/fd/%d", m.fd), m.fuseOptions()); err != nil {
		_ = unmountFS(&m.cfg)
		unix.Close(m.notifyFD)
		return nil, fmt.Errorf("%s: the kernel's FUSE rejected the mount: %w", cfg.Point, err)
	}
	go m.serveKernel()
	if err := refusePoll(cfg.Point); err != nil {
		_ = m.Unmount()
		return nil, fmt.Errorf("%s does not respond: %w", cfg.Point, err)
	}
	m.raiseReadAhead()
	m.enableNameLending()
	return m, nil
}

// fetchRoot fetches the root's attributes and limits from the server, before the
// kernel sends requests.
func (m *Mount) fetchRoot() error {
	root := m.table.findNode(fuse.FUSE_ROOT_ID)
	began := m.nextTick()
	var a nfs3.Attr
	err := m.cfg.Client.ForMount(func(c *nfsclient.Client) (err error) {
		a, err = c.GetAttr(context.Background(), root.fh)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", m.cfg.Source, err)
	}
	m.learnAttr(root, began, &a)
	m.nameMax = 255
	_ = m.cfg.Client.ForMount(func(c *nfsclient.Client) error { // without limits, use the usual maximum
		limits, err := c.PathConf(context.Background(), root.fh)
		if err == nil {
			m.nameMax = limits.NameMax
		}
		return err
	})
	return nil
}

// fuseOptions returns the options for go-fuse, which serves but does not mount.
func (m *Mount) fuseOptions() *fuse.MountOptions {
	return &fuse.MountOptions{
		Name:          "nfsrdma",
		FsName:        m.cfg.Source,
		MaxWrite:      maxTransfer,
		MaxBackground: maxBackground,
		DisableXAttrs: true,

		EnableSymlinkCaching: true, // a link with another target is another object
		DisableSplice:        true, // data come from memory, not from a file descriptor
		Logger:               slog.NewLogLogger(m.cfg.Log.Handler(), slog.LevelWarn),

		// With O_TRUNC in CREATE and OPEN, a file that another client has just
		// created is truncated too. The server clears set-user-id bits on writes,
		// and knows which writers may keep them. A default ACL replaces the umask.
		// Not every listing needs attributes. A file opened with O_DIRECT can still
		// be mapped, and asynchronous direct I/O does not wait.
		ExtraCapabilities: fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV | fuse.CAP_DONT_MASK |
			fuse.CAP_READDIRPLUS_AUTO | fuse.CAP_DIRECT_IO_ALLOW_MMAP | fuse.CAP_ASYNC_DIO | m.cfg.lockCapabilities(),
	}
}

// serveKernel handles the kernel's requests until the file system is unmounted.
func (m *Mount) serveKernel() {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { m.watchRequests(stop) })
	m.server.Serve()
	m.cancel()
	close(stop)
	wg.Wait()
	m.readBuffers.close()
	m.submounts.own.close()
	m.drainNodes()
	m.notifyMu.Lock()
	m.notifyClosed = true
	m.notifyMu.Unlock()
	m.notifications.Wait()
	unix.Close(m.notifyFD)
	close(m.done)
}

// isAborted reports whether the kernel has aborted the connection, so that no
// process waits for replies any more. The caller may have requests in flight.
func (m *Mount) isAborted() bool {
	p := []unix.PollFd{{Fd: int32(m.fd)}}
	_, err := unix.Poll(p, 0)
	return err == nil && p[0].Revents&unix.POLLERR != 0
}

// drainNodes sends the remaining dirty data after the unmount, and removes the
// hidden files: the kernel does not wait for the release of files that were closed
// shortly before.
func (m *Mount) drainNodes() {
	ctx, cancel := context.WithTimeout(context.Background(), unmountWait)
	defer cancel()
	for _, n := range m.table.listNodes() {
		if err := m.syncData(ctx, n); err != nil {
			m.cfg.Log.Error("written data is lost", "source", m.cfg.Source, "err", err)
		}
		m.removeHidden(ctx, n)
		if p, w := n.acquireWriter(); w != nil {
			p.retireWriter(w)
			p.releaseWriter(w)
		}
	}
	m.logLostData(m.table.listUnreported())
}

// Wait returns when the file system has been unmounted, by Unmount or otherwise,
// and all data that the server accepts are at the server.
func (m *Mount) Wait() { <-m.done }

// Unmount unmounts the file system and waits as Wait does. It fails while files are
// open. A mount namespace that holds a copy of the mount keeps the file system in
// use, and Unmount waits for that copy, too.
func (m *Mount) Unmount() error {
	select {
	case <-m.done:
		return nil
	default:
	}
	if err := unmountFS(&m.cfg); err != nil {
		return err
	}
	m.Wait()
	return nil
}

// String implements fuse.RawFileSystem.
func (m *Mount) String() string { return "nfsrdma" }
