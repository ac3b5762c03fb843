package copytree

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progressBar shows the progress of a copy. Without a terminal it shows nothing.
type progressBar struct {
	mu          sync.Mutex
	bar         *progressbar.ProgressBar // nil: show nothing
	files, done int
}

func newProgress(w io.Writer) *progressBar {
	if w == nil {
		return new(progressBar)
	}
	// The bar's length grows with the files found. One extra byte keeps the bar
	// from being full before the end.
	return &progressBar{bar: progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowCount(),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionThrottle(redrawInterval),
		progressbar.OptionClearOnFinish(),
	)}
}

// redrawInterval is the minimum time between two updates of a bar.
const redrawInterval = 100 * time.Millisecond

// addFile adds a file to copy.
func (p *progressBar) addFile(size int64) {
	if p.bar == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files++
	p.updateText()
	p.bar.AddMax64(size)
}

// countFile counts a copied file.
func (p *progressBar) countFile() {
	if p.bar == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.updateText()
}

func (p *progressBar) updateText() {
	p.bar.Describe(fmt.Sprintf("%d/%d files", p.done, p.files))
}

// addBytes counts copied bytes.
func (p *progressBar) addBytes(size int64) {
	if p.bar == nil {
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

// close removes the bar.
func (p *progressBar) close() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
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
