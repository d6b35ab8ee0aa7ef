package books

import (
	"math"
	"time"
)

// Outlook is what a budget will come to, in the budget's unit.
type Outlook struct {
	Rate                float64    // per day, as it is now
	Expected, Low, High float64    // at the end of the period; four times in five it is between Low and High
	SpentAt             *time.Time // when all is spent; nil: not in this period
}

// History is what was spent on whole days before today, the oldest first, of which
// the last is yesterday.
type History []float64

const (
	week = 7
	// surely is how many standard deviations hold four cases of five.
	surely = 1.28
	// A week's growth is believed between a half and twice.
	leastGrowth, mostGrowth = 0.5, 2
)

// Project continues what was spent until now to end. Each day to come is expected
// to be like the days of the last week, with the pattern of the weekdays of four
// weeks and the trend between the last two. The range is what the same arithmetic
// was wrong by on the days that are known. Without a whole day of history today's
// rate goes on.
func Project(h History, now, end time.Time, spent, amount float64) Outlook {
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	m := modelOf(h, today.Weekday(), spent, now.Sub(today))
	o := Outlook{Rate: m.at(0), Expected: spent}
	if spent >= amount {
		o.SpentAt = &now
	}
	days := 0.0
	for n := 0; ; n++ {
		from, to := today.AddDate(0, 0, n), today.AddDate(0, 0, n+1)
		whole := to.Sub(from)
		if from.Before(now) {
			from = now
		}
		if to.After(end) {
			to = end
		}
		if !from.Before(to) {
			break
		}
		part := float64(to.Sub(from)) / float64(whole)
		more := m.at(n) * part
		if o.SpentAt == nil && o.Expected+more >= amount && more > 0 {
			at := from.Add(time.Duration(float64(to.Sub(from)) * (amount - o.Expected) / more))
			o.SpentAt = &at
		}
		o.Expected += more
		days += part
	}
	wrong := surely * m.error * math.Sqrt(days)
	if len(h) == 0 {
		wrong = o.Expected - spent // nothing is known of its days
	}
	o.Low, o.High = max(spent, o.Expected-wrong), o.Expected+wrong
	return o
}

// model is how a budget is spent.
type model struct {
	level  float64       // of a usual day now
	growth float64       // of the level in a week
	shape  [week]float64 // of a weekday, of the usual day
	first  time.Weekday  // of today
	error  float64       // standard deviation of a day
}

// at is what the day that many days after today is expected to come to.
func (m *model) at(n int) float64 {
	growth := min(max(math.Pow(m.growth, float64(n)/week), leastGrowth), mostGrowth)
	return m.level * growth * m.shape[(int(m.first)+n)%week]
}

// leastToday is the part of a day that must be over before its rate means something.
const leastToday = time.Hour

func modelOf(h History, today time.Weekday, spent float64, elapsed time.Duration) model {
	m := model{growth: 1, first: today}
	for i := range m.shape {
		m.shape[i] = 1
	}
	if len(h) == 0 {
		m.level = spent * float64(24*time.Hour) / float64(max(elapsed, leastToday))
		return m
	}
	if len(h) >= 2*week {
		m.shape = shapeOf(h, today)
	}
	last := h[max(0, len(h)-week):]
	m.level = m.usual(h, len(h)-len(last), len(h))
	if len(h) >= 2*week {
		if before := m.usual(h, len(h)-2*week, len(h)-week); before > 0 {
			m.growth = min(max(m.level/before, leastGrowth), mostGrowth)
		}
	}
	squares, n := 0.0, 0
	for i := range last {
		day := len(h) - len(last) + i
		wrong := h[day] - m.level*m.shapeAt(day-len(h))
		squares += wrong * wrong
		n++
	}
	m.error = math.Sqrt(squares / float64(n))
	return m
}

// shapeAt is the shape of the day that many days after today, or before it.
func (m *model) shapeAt(n int) float64 { return m.shape[((int(m.first)+n)%week+week)%week] }

// usual is the usual day of the days from one to another: their sum by that of
// their shapes.
func (m *model) usual(h History, from, to int) float64 {
	sum, shapes := 0.0, 0.0
	for i := from; i < to; i++ {
		sum += h[i]
		shapes += m.shapeAt(i - len(h))
	}
	if shapes == 0 {
		return 0
	}
	return sum / shapes
}

// shapeOf is what each weekday comes to, of the mean of all.
func shapeOf(h History, today time.Weekday) [week]float64 {
	h = h[max(0, len(h)-4*week):]
	var sums, counts, shape [week]float64
	all := 0.0
	for i, spent := range h {
		day := ((int(today)+i-len(h))%week + week) % week
		sums[day] += spent
		counts[day]++
		all += spent
	}
	for day := range shape {
		shape[day] = 1
		if all > 0 && counts[day] > 0 {
			shape[day] = sums[day] / counts[day] / (all / float64(len(h)))
		}
	}
	return shape
}
