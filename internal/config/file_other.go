//go:build !linux

package config

import (
	"io/fs"
	"time"
)

func changed(info fs.FileInfo) time.Time { return info.ModTime() }
