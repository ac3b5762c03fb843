package rpcstats

import "log/slog"

// discardLogger returns a log for tests that provoke errors.
func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }
