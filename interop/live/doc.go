// Package live looks at nfsrdmad as an administrator does: at its live page with
// Chromium without a window, at its metrics and alerts with Prometheus, and at the words
// that shells complete. It knows the tables of the page, the output of status --json and
// the alerts in contrib, and nothing of how they are made.
package live
