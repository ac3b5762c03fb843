package copytree

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A Summary counts what a copy has done.
type Summary struct {
	Files     int   // files, links and directories' other objects that were copied
	Unchanged int   // files that were up to date
	Bytes     int64 // of the files copied, without what Resume found and without holes
}

// A progressBar counts, and shows the progress of a copy. Without a terminal it shows
// nothing.
type progressBar struct {
	mu    sync.Mutex
	w     io.Writer
	bar   *progressbar.ProgressBar // nil: show nothing
	files int                      // found
	sum   Summary
	bytes atomic.Int64
}

func newProgress(w io.Writer) *progressBar {
	if w == nil {
		return new(progressBar)
	}
	// The bar's length grows with the files found. One extra byte keeps the bar
	// from being full before all files are on stable storage.
	return &progressBar{w: w, bar: progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowCount(),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionThrottle(redrawInterval),
	)}
}

// redrawInterval is the minimum time between two updates of a bar.
const redrawInterval = 100 * time.Millisecond

// addFile adds a file to copy.
func (p *progressBar) addFile(size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files++
	if p.bar != nil {
		p.updateText()
		p.bar.AddMax64(size)
	}
}

// countFile counts a copied file.
func (p *progressBar) countFile() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum.Files++
	p.updateText()
}

// skipFile counts a file that is up to date.
func (p *progressBar) skipFile(size int64) {
	p.skipBytes(size)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum.Unchanged++
	p.updateText()
}

func (p *progressBar) updateText() {
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("%d/%d files", p.sum.Files+p.sum.Unchanged, p.files))
	}
}

// addBytes counts copied bytes.
func (p *progressBar) addBytes(size int64) {
	p.bytes.Add(size)
	p.skipBytes(size)
}

// skipBytes counts bytes that need no copying.
func (p *progressBar) skipBytes(size int64) {
	if p.bar == nil || size == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.bar.Add64(size) // a terminal error is not a copy error
}

// withoutBar calls write while the bar is hidden.
func (p *progressBar) withoutBar(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	write()
}

// close shows the bar as full if the copy is complete, and removes it otherwise.
func (p *progressBar) close(complete bool) {
	switch {
	case p.bar == nil:
	case complete:
		_ = p.bar.Finish()
		_, _ = io.WriteString(p.w, "\n")
	default:
		_ = p.bar.Clear()
	}
}

// summary returns what has been counted.
func (p *progressBar) summary() Summary {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sum
	s.Bytes = p.bytes.Load()
	return s
}

// A countingReader advances the bar and records a failure of its Reader.
type countingReader struct {
	r   io.Reader
	bar *progressBar
	err error
}

// Read implements io.Reader.
func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.bar.addBytes(int64(n))
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

func (r *countingReader) hasFailed() bool { return r.err != nil }

// A countingWriter advances the bar and records a failure of its Writer.
type countingWriter struct {
	w   io.Writer
	bar *progressBar
	err error
}

// Write implements io.Writer.
func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.bar.addBytes(int64(n))
	if err != nil {
		w.err = err
	}
	return n, err
}

func (w *countingWriter) hasFailed() bool { return w.err != nil }
