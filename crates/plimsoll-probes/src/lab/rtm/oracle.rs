//! A time step of `rtm` by plain loops in double precision.

use super::kernels::RADIUS;

/// Central differences for the second derivative, 8th order (Fornberg 1988, Mathematics of Computation 51, table 1).
const WEIGHT: [f64; RADIUS as usize + 1] = [-205.0 / 72.0, 8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0];
/// Allowed error of a step in single precision, in roundings of the largest term: fifteen operations of half a unit each, plus the
/// roundings of the weights.
const ROUNDINGS: f64 = 32.0 / 16_777_216.0;

/// A field with its past in a medium; everything outside is zero.
#[derive(Clone, Debug)]
pub(crate) struct Wave {
    cells: [u32; 3],
    /// The previous field.
    pub(crate) field: Vec<f64>,
    /// The current field.
    pub(crate) p: Vec<f64>,
    /// (v · dt / h)² per cell.
    pub(crate) courant: Vec<f64>,
}

impl Wave {
    /// From fields without gaps; x varies fastest.
    pub(crate) fn new(cells: [u32; 3], fields: [&[f32]; 3]) -> Self {
        let [field, p, courant] = fields.map(|field| field.iter().map(|x| f64::from(*x)).collect());
        Self { cells, field, p, courant }
    }

    fn value_at(&self, [x, y, z]: [i64; 3]) -> f64 {
        let [nx, ny, nz] = self.cells.map(i64::from);
        let inside = (0..nx).contains(&x) && (0..ny).contains(&y) && (0..nz).contains(&z);
        if inside { self.p[((z * ny + y) * nx + x) as usize] } else { 0.0 }
    }

    /// One step. Returns each cell's allowed error in single precision.
    pub(crate) fn step(&mut self) -> Vec<f64> {
        let [nx, ny, nz] = self.cells.map(i64::from);
        let mut new = Vec::with_capacity(self.p.len());
        let mut off = Vec::with_capacity(self.p.len());
        for place in (0..nz).flat_map(|z| (0..ny).flat_map(move |y| (0..nx).map(move |x| [x, y, z]))) {
            let i = new.len();
            let mut sum = 3.0 * WEIGHT[0] * self.p[i];
            let mut size = sum.abs();
            for (axis, k) in (0..3).flat_map(|axis| (1..=i64::from(RADIUS)).map(move |k| (axis, k))) {
                let [low, high] = [-k, k].map(|by| {
                    let mut at = place;
                    at[axis] += by;
                    self.value_at(at)
                });
                sum += WEIGHT[k as usize] * (low + high);
                size += WEIGHT[k as usize].abs() * (low.abs() + high.abs());
            }
            new.push(2.0 * self.p[i] - self.field[i] + self.courant[i] * sum);
            off.push(ROUNDINGS * (2.0 * self.p[i].abs() + self.field[i].abs() + self.courant[i] * size) + 1e-42);
        }
        self.field = std::mem::replace(&mut self.p, new);
        off
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::stats::Rng;
    use proptest::prelude::*;

    fn medium(cells: [u32; 3], seed: u64) -> Vec<f32> {
        let mut rng = Rng::new(seed);
        let unit = |rng: &mut Rng| (rng.next_u64() >> 40) as f32 / 16_777_216.0;
        (0..cells.iter().product()).map(|_| 0.05 + 0.1 * unit(&mut rng)).collect()
    }

    /// The field at one cell some steps after an impulse at another. The impulse is scaled by the medium at its cell.
    fn response(cells: [u32; 3], medium: &[f32], (from, to): (usize, usize), steps: u32) -> f64 {
        let zeros = vec![0.0; medium.len()];
        let mut wave = Wave::new(cells, [&zeros, &zeros, medium]);
        wave.p[from] = wave.courant[from];
        (0..steps).for_each(|_| drop(wave.step()));
        wave.p[to]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn source_and_receiver_are_interchangeable(seed in 0_u64..1000, steps in 1_u32..24) {
            let cells = [9, 7, 8];
            let medium = medium(cells, seed);
            let mut rng = Rng::new(seed ^ 99);
            let mut place = || (rng.next_u64() % medium.len() as u64) as usize;
            let (a, b) = (place(), place());
            let (there, back) = (response(cells, &medium, (a, b), steps), response(cells, &medium, (b, a), steps));
            prop_assert!((there - back).abs() <= 1e-12 * there.abs().max(1e-3), "{there} {back}");
        }
    }

    #[test]
    fn a_plane_wave_travels_at_the_speed_of_the_medium() {
        // A column that is wide enough for the middle to see no edge for so long.
        let (cells, steps, courant) = ([33, 33, 64], 8, 0.16_f32);
        let wavelength = 16.0;
        let wave_at = |z: f64| (std::f64::consts::TAU * z / wavelength).sin() as f32;
        let field = |shift: f64| -> Vec<f32> {
            let plane = |z| std::iter::repeat_n(wave_at(f64::from(z) - shift), 33 * 33);
            (0..cells[2]).flat_map(plane).collect()
        };
        let speed = f64::from(courant).sqrt();
        let mut wave = Wave::new(cells, [&field(-speed), &field(0.0), &vec![courant; 33 * 33 * 64]]);
        // Eight steps reach 32 cells: only the middle column is still right.
        for _ in 0..steps / 2 {
            wave.step();
        }
        let (middle, z) = (16 * 33 + 16, 30);
        let found = wave.p[z * 33 * 33 + middle];
        let right = f64::from(wave_at(z as f64 - speed * f64::from(steps / 2)));
        assert!((found - right).abs() < 5e-3, "{found} {right}");
    }

    #[test]
    fn steps_back_undo_steps_forward() {
        let cells = [6, 5, 7];
        let medium = medium(cells, 3);
        let start = medium.iter().map(|x| x * 3.0).collect::<Vec<f32>>();
        let mut wave = Wave::new(cells, [&start, &start, &medium]);
        (0..5).for_each(|_| drop(wave.step()));
        std::mem::swap(&mut wave.field, &mut wave.p);
        (0..5).for_each(|_| drop(wave.step()));
        let off = wave.p.iter().zip(&start).map(|(a, b)| (a - f64::from(*b)).abs()).fold(0.0, f64::max);
        assert!(off < 1e-12, "{off}");
    }
}
